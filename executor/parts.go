package executor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/segmenter"
)

// A part of a program is what becomes of a segment, or a copy. Its kernel may be that
// of other parts too.
type part struct {
	segment int          // its number; -1: a copy
	about   string       // what it is, and what it computes, by the names of the fusion that was cut
	own     bool         // its fusion has other names
	f       *core.Fusion // of a segment
	task    *task
	c       *compiled // of a call of torch too, without a schedule; nil: of what needs no kernel
}

// A view needs no kernel.
func (p *part) isView() bool { return p.c == nil && p.task == nil }

// partOf returns what became of piece i.
func (a *assembly) partOf(i int, x *piece) part {
	p := part{segment: i, f: x.Fusion, task: x.task, c: x.c}
	name := func(v core.ValID, here string) string {
		whole := a.f.Name(v)
		if whole == here {
			return whole
		}
		p.own = true
		return whole + " (here " + here + ")"
	}
	var reads, writes []string
	for k, in := range x.Inputs {
		v := x.Fusion.Inputs()[k]
		if in.Val != core.NoVal {
			reads = append(reads, name(in.Val, x.Fusion.Name(v)))
			continue
		}
		tag := a.f.Scalars().Tag(in.Scalar)
		if tag.Dim < 0 {
			reads = append(reads, name(core.ValID(tag.Val), x.Fusion.Name(v)))
			continue
		}
		p.own = true
		reads = append(reads, fmt.Sprintf("size %d of %s (here %s)", tag.Dim, a.f.Name(core.ValID(tag.Val)), x.Fusion.Name(v)))
	}
	for k, v := range x.Writes {
		writes = append(writes, name(v, x.Fusion.Name(x.Fusion.Outputs()[k].Val)))
	}
	what := x.Kind.String()
	switch {
	case x.Kind == segmenter.Kernel && x.c != nil && x.c.scheduler != "":
		what += " by " + x.c.scheduler
	case x.Scheduler != "":
		what += " by " + x.Scheduler
	case x.Kind == segmenter.TorchCall:
		what = "call of torch for " + x.Fusion.Expr(x.Fusion.Order()[0]).Called.Name + "()"
		p.c = &compiled{task: x.task, lowered: &lowered{}, refusals: x.Refusals}
	}
	p.about = what + ": " + strings.Join(writes, ", ")
	if len(reads) > 0 {
		p.about += " from " + strings.Join(reads, ", ")
	}
	return p
}

// look notes what the program is made of: of one that could not be completed all pieces,
// and no copies.
func (a *assembly) look(failed error) {
	m := a.made
	m.f, m.program = a.f, a.program
	if failed == nil {
		return
	}
	m.parts = nil
	for i, x := range a.pieces {
		m.parts = append(m.parts, a.partOf(i, x))
	}
}

// purpose says of which segment a launch is, if there are several parts.
func (m *made) purpose(launch int) string {
	if len(m.parts) < 2 {
		return ""
	}
	for i := range m.parts {
		p := &m.parts[i]
		switch {
		case p.c == nil || p.c.kernel == nil:
			continue
		case launch > 0:
			launch--
			continue
		case p.segment < 0:
			return " (copy)"
		}
		return fmt.Sprintf(" (segment %d)", p.segment)
	}
	return ""
}

// title returns the line that tells a part from others.
func (p *part) title(mark string) string {
	switch {
	case p.segment < 0 && p.isView():
		return mark + " view: " + p.about + "\n"
	case p.segment < 0:
		return mark + " copy: " + p.about + "\n"
	}
	return fmt.Sprintf("%s segment %d, %s\n", mark, p.segment, p.about)
}

// segmentArgument is what stages of parts take.
const segmentArgument = "segment="

// chosen returns the parts that arguments ask for, and other arguments.
func (x *Inspection) chosen(arguments []string) (parts []part, others []string, err error) {
	if x.made != nil {
		parts = x.made.parts
	}
	for _, given := range arguments {
		text, ok := strings.CutPrefix(given, segmentArgument)
		if !ok {
			others = append(others, given)
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, nil, core.InvalidArgumentf("%s is no number of a segment, which are counted from 0", given)
		}
		at := slices.IndexFunc(parts, func(p part) bool { return p.segment == n })
		if at < 0 { // as may be of one fusion among many that are shown
			return nil, nil, &core.Unsupported{What: fmt.Sprintf("there is no segment %d: this fusion has %d, counted from 0", n, countSegments(parts))}
		}
		parts = parts[at : at+1]
	}
	return parts, others, nil
}

func countSegments(parts []part) (n int) {
	for i := range parts {
		n = max(n, parts[i].segment+1)
	}
	return n
}

// showParts shows a stage of the parts that arguments ask for, below a line for each if
// there are several: of one kernel once for all parts that it computes, but for launches.
func (x *Inspection) showParts(s *Stage, arguments []string) (string, error) {
	parts, arguments, err := x.chosen(arguments)
	if err != nil {
		return "", err
	}
	if len(parts) == 0 && x.failed != nil {
		return "", x.failed
	}
	if s.needs == aSegment { // which copies are none of
		parts = slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.segment < 0 })
	}
	if len(parts) == 0 {
		return "", noKernel()
	}
	if len(x.made.parts) == 1 && !parts[0].own {
		return x.showPart(s, &parts[0], arguments)
	}
	var b strings.Builder
	var refused, view *core.Unsupported // the first, and one of an output that is a view
	none, mark := true, "//"            // as in CUDA
	if s.needs == aSegment {
		mark = "#" // as in Python and the text of fusions
	}
	shown := map[*compiled]bool{}
	for i := range parts {
		p := &parts[i]
		isShared := p.c != nil && p.c.s != nil && s.needs != aLaunch
		if isShared && shown[p.c] {
			continue
		}
		shown[p.c] = true
		b.WriteString(p.title(mark))
		for k := i + 1; isShared && k < len(parts); k++ {
			if parts[k].c == p.c {
				b.WriteString(parts[k].title(mark))
			}
		}
		text, err := x.showPart(s, p, arguments)
		var why *core.Unsupported
		switch {
		case errors.As(err, &why):
			if p.segment < 0 && p.isView() { // which the title says
				view = why
				continue
			}
			if refused == nil {
				refused = why
			}
			for _, r := range why.Refusals {
				fmt.Fprintf(&b, "%s %s refuses: %s (%s)\n", mark, r.By, r.Sentence, r.Rule)
			}
		case err != nil:
			return "", err
		default:
			none = false
			b.WriteString(text)
			if text != "" && !strings.HasSuffix(text, "\n") {
				b.WriteByte('\n')
			}
		}
	}
	if refused = cmp.Or(refused, view); none && refused != nil {
		return "", refused
	}
	return b.String(), nil
}

// showPart shows a stage of one part, if that has what it needs.
func (x *Inspection) showPart(s *Stage, p *part, arguments []string) (string, error) {
	if s.needs > aSegment && p.isView() {
		return "", notOfView()
	}
	c := p.c
	isMissing := c == nil || s.needs >= aSchedule && c.s == nil || s.needs >= aKernel && c.kernel == nil
	switch {
	case s.needs == aSegment && c == nil:
		return s.part(p, arguments)
	case !isMissing:
		c.lock.Lock()
		defer c.lock.Unlock()
		return s.part(p, arguments)
	case x.failed != nil:
		return "", x.failed
	}
	return "", &core.Unsupported{What: "no scheduler takes this fusion: torch computes it", Refusals: c.refusals}
}

func notOfView() error {
	return &core.Unsupported{What: "there is no kernel to show", Refusals: []core.Refusal{{By: "executor", Rule: "view",
		Sentence: "the result is the memory of its operand, seen otherwise"}}}
}

// noKernel is the error of looking at the kernel of a plan that needs none.
func noKernel() error {
	return &core.Unsupported{What: "there is no kernel to show", Refusals: []core.Refusal{{By: "executor", Rule: "kernel",
		Sentence: "each output is an input or has no elements"}}}
}
