package schedule

import (
	"fmt"
	"slices"
	"strings"

	"nvfuser_go/core"
)

var kindLetters = map[core.AxisKind]string{core.Iter: "i", core.Broadcast: "b", core.Reduce: "r", core.Symbolic: "?"}

// axisName shows an axis by kind, id and extent: i5{8}, b6{1}, of an expanded
// broadcast b7{1 of 4}.
func (s *Scheduled) axisName(a core.AxisID) string {
	x := s.f.Axis(a)
	text := fmt.Sprintf("%s%d{%s", kindLetters[x.Kind], a, s.scalarText(x.Extent))
	if x.Kind == core.Broadcast && s.f.Size(a) != x.Extent {
		text += " of " + s.scalarText(s.f.Size(a))
	}
	text += "}"
	if p := s.Parallel(a); p != Serial {
		text += " " + p.String()
	}
	return text
}

// AxisText is the text of an axis that [core.Fusion.AxisString] gives, with its
// parallel type in place of the S of serial.
func (s *Scheduled) AxisText(a core.AxisID) string {
	text := s.f.AxisString(a)
	if p := s.Parallel(a); p != Serial {
		text = strings.Replace(text, "S", p.String(), 1)
	}
	return text
}

// LoopText shows the loop domain of v so.
func (s *Scheduled) LoopText(v core.ValID) string {
	names := []string{}
	for _, a := range s.Loop(v) {
		names = append(names, s.AxisText(a))
	}
	return "[" + strings.Join(names, ", ") + "]"
}

func (s *Scheduled) domainText(axes []core.AxisID) string {
	names := make([]string, len(axes))
	for i, a := range axes {
		names[i] = s.axisName(a)
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// TensorText shows what is decided about v, in lines.
func (s *Scheduled) TensorText(v core.ValID) string { return s.tensorText(v, true) }

func (s *Scheduled) tensorText(v core.ValID, transforms bool) string {
	d, t := &s.f.Val(v).Domain, &s.tensors[v]
	text := fmt.Sprintf("%s %v %v\n", s.name(v), t.memory, s.domainText(s.Loop(v)))
	if t.position > 0 {
		text = fmt.Sprintf("%s %v %v computed at %d\n", s.name(v), t.memory, s.domainText(s.Loop(v)), t.position)
	}
	if !transforms {
		return text
	}
	part := func(name string, axes []core.AxisID) {
		text += fmt.Sprintf("  %s %s\n", name, s.domainText(axes))
	}
	if !slices.Equal(d.Root, d.Logical) {
		part("root", d.Root)
	}
	if !slices.Equal(d.Logical, s.Loop(v)) {
		part("logical", d.Logical)
	}
	if alloc, set := s.Allocation(v); set || !slices.Equal(alloc, d.Logical) {
		part("allocation", alloc)
	}
	for _, id := range s.history(v) {
		text += "  " + s.transformText(id) + "\n"
	}
	return text
}

func (s *Scheduled) transformText(id core.TransformID) string {
	t := s.f.Transform(id)
	in, out := s.plainNames(t.Inputs()), s.plainNames(t.Results())
	switch t.Kind {
	case core.Split:
		side := "outer"
		if t.Inner {
			side = "inner"
		}
		if t.Whole {
			side = "whole"
		}
		return fmt.Sprintf("%s = split %s by %s %s", out, in, side, s.scalarText(t.Factor))
	case core.Merge:
		return fmt.Sprintf("%s = merge %s", out, in)
	case core.Shift:
		return fmt.Sprintf("%s = shift %s by %s", out, in, s.phaseText(t.Left))
	}
	return fmt.Sprintf("%s = resize %s by %s and %s", out, in, s.scalarText(t.Left), s.scalarText(t.Right))
}

func (s *Scheduled) plainNames(axes []core.AxisID) string {
	names := make([]string, len(axes))
	for i, a := range axes {
		names[i] = fmt.Sprintf("%s%d", kindLetters[s.kind(a)], a)
	}
	return strings.Join(names, ", ")
}

// String shows the expressions in order, each after the tensors that it defines.
func (s *Scheduled) String() string { return s.Text(true) }

// Text is String; without transforms, tensors have no lines that tell how their
// loops stem from their dimensions.
func (s *Scheduled) Text(transforms bool) string {
	var b strings.Builder
	if s.arguments {
		fmt.Fprintln(&b, "arguments for promised scalars")
	}
	if s.apart {
		fmt.Fprintln(&b, "exchanges apart")
	}
	if s.sideBySide {
		fmt.Fprintln(&b, "side by side")
	}
	if s.resident > 0 {
		fmt.Fprintf(&b, "%d blocks of a multiprocessor\n", s.resident)
	}
	for _, v := range s.Tensors() {
		b.WriteString(s.tensorText(v, transforms))
		if d := s.f.Val(v).Def; d != core.NoExpr {
			b.WriteString("  = " + s.statementText(d) + "\n")
		}
	}
	return b.String()
}

func (s *Scheduled) statementText(id core.ExprID) string {
	e := s.f.Expr(id)
	var args []string
	for i, p := range e.Op.Params() {
		switch a := e.Args[i]; {
		case a.Kind == core.TensorArg:
			args = append(args, s.name(a.Tensor))
		case a.Kind == core.TensorsArg:
			for _, v := range a.Tensors {
				args = append(args, s.name(v))
			}
		case a.Kind == core.ScalarArg && p.Kind == core.Operand:
			args = append(args, s.scalarText(a.Scalar))
		}
	}
	return fmt.Sprintf("%s(%s)", e.Op.Name, strings.Join(args, ", "))
}

// LoopNest shows the loops that m's schedule becomes, as pseudo-code.
func (m *Mapping) LoopNest() string {
	var b strings.Builder
	m.printNest(&b, m.Tree(), 0)
	return b.String()
}

func (m *Mapping) printNest(b *strings.Builder, body []*Nest, depth int) {
	indent := strings.Repeat("  ", depth)
	for _, n := range body {
		if n.Axis == core.NoAxis {
			var names []string
			for _, v := range m.f.Expr(n.Expr).Out {
				names = append(names, m.f.Name(v))
			}
			fmt.Fprintf(b, "%s%s = %s\n", indent, strings.Join(names, ", "), m.s.statementText(n.Expr))
			continue
		}
		fmt.Fprintf(b, "%sfor %d < %s", indent, depth, m.s.scalarText(m.f.Axis(m.Promotion(n.Axis)).Extent))
		if p := m.Parallel(n.Axis); p != Serial {
			fmt.Fprintf(b, " %v", p)
		}
		b.WriteString("\n")
		m.printNest(b, n.Body, depth+1)
	}
}

// LoopClasses shows the loops that m's schedule becomes, each with the axes of
// the tensors that run in it.
func (m *Mapping) LoopClasses() string {
	var b strings.Builder
	for _, n := range m.Tree() {
		m.printClass(&b, n, 0)
	}
	return b.String()
}

func (m *Mapping) printClass(b *strings.Builder, n *Nest, depth int) {
	if n.Axis == core.NoAxis {
		return
	}
	fmt.Fprintf(b, "%sloop of %s %v:", strings.Repeat("  ", depth), m.s.scalarText(m.f.Axis(m.Promotion(n.Axis)).Extent), m.Parallel(n.Axis))
	for _, v := range m.s.Tensors() {
		if m.s.isInput(v) {
			continue
		}
		for k, a := range m.s.Loop(v) {
			if m.LoopClass(a) == m.LoopClass(n.Axis) {
				fmt.Fprintf(b, " %s[%d]", m.s.name(v), k)
			}
		}
	}
	b.WriteString("\n")
	for _, inner := range n.Body {
		m.printClass(b, inner, depth+1)
	}
}
