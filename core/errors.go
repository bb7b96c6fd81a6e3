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

// sentence is Sprintf with sizes as Python shows lists, [3, 4], and with the
// singular of a noun after a %d that is 1: "1 dimension" of "%d dimensions".
func sentence(format string, args ...any) string {
	for i, a := range args {
		switch a := a.(type) {
		case []int64:
			args[i] = strings.ReplaceAll(fmt.Sprint(a), " ", ", ")
		case int, int32, int64, uint64:
			if fmt.Sprint(a) == "1" {
				format = singular(format, i)
			}
		}
	}
	return fmt.Sprintf(format, args...)
}

// singulars are the nouns that follow a %d in the texts of errors.
var singulars = map[string]string{
	"arguments": "argument", "axes": "axis", "bytes": "byte", "dimensions": "dimension", "elements": "element",
	"entries": "entry", "flags": "flag", "inputs": "input", "items": "item", "outputs": "output", "places": "place",
	"results": "result", "sizes": "size", "strides": "stride", "values": "value",
}

// singular returns format with the singular of the noun right after the verb of
// args[n], if that is %d.
func singular(format string, n int) string {
	for i := 0; i+1 < len(format); i++ {
		switch {
		case format[i] != '%':
			continue
		case format[i+1] == '%':
			i++
			continue
		case n > 0:
			n--
			continue
		}
		rest, ok := strings.CutPrefix(format[i:], "%d ")
		end := strings.IndexFunc(rest, func(r rune) bool { return r < 'a' || r > 'z' })
		if end < 0 {
			end = len(rest)
		}
		if one, known := singulars[rest[:end]]; ok && known {
			return format[:i] + "%d " + one + rest[end:]
		}
		break
	}
	return format
}

// CalledAs returns err, the mistake of an operation, in the name of the function
// that the user called: the expansion of broadcast_in_dim applies expand, which
// the user's program does not mention.
func CalledAs(name string, err error) error {
	inner, rest, ok := strings.Cut(err.Error(), "(): ")
	if !ok || inner == name || Lookup(inner) == nil {
		return err
	}
	text := name + "(): " + rest
	switch e := err.(type) {
	case *InvalidArgument:
		return &InvalidArgument{text}
	case *InvalidType:
		return &InvalidType{text}
	case *Unsupported:
		return &Unsupported{What: name + "(): " + strings.TrimPrefix(e.What, inner+"(): "), Refusals: e.Refusals}
	}
	return err
}

// InvalidArgumentf makes an [InvalidArgument] for packages above core.
func InvalidArgumentf(format string, args ...any) error { return invalidArgument(format, args...) }

// InvalidTypef makes an [InvalidType] for packages above core.
func InvalidTypef(format string, args ...any) error { return invalidType(format, args...) }
