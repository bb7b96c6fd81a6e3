package executor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"nvfuser_go/core"
)

// A failure is why the kernel of a piece cannot be made.
type failure struct {
	of  *piece
	err error
}

// failed returns the error of all failures: the one of a fusion that is one kernel, or
// of what the machine lacks, else one that shows each piece as Python. It is a Bug if one
// of them is.
func (a *assembly) failed(all []failure) error {
	if len(a.pieces) == 1 || !slices.ContainsFunc(all, func(x failure) bool { return !x.isMissing() }) {
		return all[0].err
	}
	var (
		b       strings.Builder
		errs    []error
		bugs    []*Bug
		refused []*core.Unsupported
	)
	first, _, _ := strings.Cut(all[0].text(), "\n")
	fmt.Fprintf(&b, "%d of %d segments cannot be computed: %s", len(all), len(a.pieces), first)
	for _, x := range all {
		i := slices.Index(a.pieces, x.of)
		p := a.partOf(i, x.of)
		fmt.Fprintf(&b, "\nsegment %d, %s\n  %s\n%s", i, p.about, strings.ReplaceAll(x.text(), "\n", "\n  "),
			strings.TrimSuffix(x.of.Fusion.Python(fmt.Sprintf("nvfuser_fusion_%d", i)), "\n"))
		errs = append(errs, x.err)
		bugs, refused = appended(bugs, x.err), appended(refused, x.err)
	}
	switch {
	case len(bugs) > 0:
		return together(bugs, b.String())
	case len(refused) == len(all):
		whole := &core.Unsupported{What: b.String()}
		for _, r := range refused {
			whole.Refusals = append(whole.Refusals, r.Refusals...)
		}
		errs = []error{whole}
	}
	return &failedPieces{b.String(), errs}
}

// text returns what happened, of a panic without the stack.
func (x failure) text() string {
	var bug *Bug
	if !errors.As(x.err, &bug) {
		return x.err.Error()
	}
	text := fmt.Sprint(bug.What)
	if bug.Stack != nil {
		text, _, _ = strings.Cut(text, "\n")
	}
	return text
}

func (x failure) isMissing() bool {
	var refused *core.Unsupported
	return errors.As(x.err, &refused) && isMissing(refused)
}

// appended returns list with err, if that is one of its kind.
func appended[E error](list []E, err error) []E {
	var e E
	if errors.As(err, &e) {
		list = append(list, e)
	}
	return list
}

// together returns a Bug of several.
func together(bugs []*Bug, what string) *Bug {
	b := &Bug{What: what}
	for _, bug := range bugs {
		b.text += bug.text
		if bug.Stack != nil { // what was panicked with may have another stack
			b.Stack = append(append(append(b.Stack, fmt.Sprintln(bug.What)...), bug.Stack...), '\n')
		}
	}
	return b
}

// failedPieces are the errors of several pieces, told as one.
type failedPieces struct {
	text string
	errs []error
}

func (e *failedPieces) Error() string   { return e.text }
func (e *failedPieces) Unwrap() []error { return e.errs }
