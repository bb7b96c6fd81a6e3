package core

import (
	"fmt"
	"strings"
)

// An InvalidArgument is a mistake in the caller's program: a value that breaks
// a rule. Its text names the argument, the value and the rule and is shown as
// it is. In Python it is InvalidArgument(FusionError, ValueError).
type InvalidArgument struct{ msg string }

func (e *InvalidArgument) Error() string { return e.msg }

// An InvalidType is a mistake in the caller's program: an argument, or the
// elements of a tensor, of a type that the operation does not take. In Python
// it is InvalidType(FusionError, TypeError).
type InvalidType struct{ msg string }

func (e *InvalidType) Error() string { return e.msg }

// A Refusal says why one way of doing something was not possible.
type Refusal struct {
	By       string // scheduler, executor or pass that refuses
	Rule     string // short name of the rule, such as "rank"
	Tensor   string // the tensor in the user's terms, or ""
	Sentence string // begins with what was found
}

// Unsupported means that the program is right and this build cannot run it. In
// Python it is Unsupported(FusionError, NotImplementedError) with .refusals.
type Unsupported struct {
	What     string
	Refusals []Refusal
}

func (e *Unsupported) Error() string {
	var b strings.Builder
	b.WriteString(e.What)
	for _, r := range e.Refusals {
		fmt.Fprintf(&b, "\n  %s: %s", r.By, r.Sentence)
	}
	return b.String()
}

func invalidArgument(format string, args ...any) error {
	return &InvalidArgument{sentence(format, args...)}
}

func invalidType(format string, args ...any) error {
	return &InvalidType{sentence(format, args...)}
}

// sentence is Sprintf with sizes as Python shows lists: [3, 4].
func sentence(format string, args ...any) string {
	for i, a := range args {
		if list, ok := a.([]int64); ok {
			args[i] = strings.ReplaceAll(fmt.Sprint(list), " ", ", ")
		}
	}
	return fmt.Sprintf(format, args...)
}

// InvalidArgumentf makes an [InvalidArgument] for packages above core.
func InvalidArgumentf(format string, args ...any) error { return invalidArgument(format, args...) }

// InvalidTypef makes an [InvalidType] for packages above core.
func InvalidTypef(format string, args ...any) error { return invalidType(format, args...) }
