//go:generate go run ../cmd/genops -root ..

package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"nvfuser_go/core/dtype"
)

// What the op table says to those outside Go: the stub, the documentation page,
// the Python package and the tests that are made from the table. JSON names are
// the contract.

// An OpDescription is a row without its functions.
type OpDescription struct {
	Name       string            `json:"name"`
	Group      string            `json:"group"`
	Class      string            `json:"class"`
	Doc        string            `json:"doc"`
	Signatures []string          `json:"signatures"` // as Python shows them, without the name
	Overloads  [][]ParamSummary  `json:"overloads"`
	Results    []string          `json:"results"` // their names, where there are several; empty: one
	Accept     int               `json:"accept"`  // bits: 1 bool, 2 integer, 4 floating, 8 complex; 0: the row says nothing
	Compute    string            `json:"compute"` // of elementwise ops: common, float, keep, bool, integer
	Result     string            `json:"result"`  // of elementwise ops: compute, bool, real, complex
	Skip       int               `json:"skip"`    // leading operands that do not take part in promotion
	Torch      string            `json:"torch"`
	Domain     []IntervalSummary `json:"domain"`
	ULP        float64           `json:"ulp"`
}

// A ParamSummary is a parameter of an overload.
type ParamSummary struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"` // operand, tensor, tensors, number, extent, shape, integer, integers, dim, dims, flag, flags, dtype
	Optional bool   `json:"optional"`
	Default  string `json:"default"` // as Python shows it; "" if there is none
	KeyOnly  bool   `json:"keyword_only"`
}

// An IntervalSummary bounds the inputs that tests draw for an operand.
type IntervalSummary struct {
	Lo string `json:"lo"`
	Hi string `json:"hi"`
}

var (
	computeNames = [...]string{"common", "float", "keep", "bool", "integer"}
	resultNames  = [...]string{"compute", "bool", "real", "complex"}
)

var kindNames = [...]string{"operand", "tensor", "tensors", "number", "extent", "shape", "integer", "integers", "dim",
	"dims", "flag", "flags", "dtype"}

// DescribeOps describes the rows in order of name.
func DescribeOps() []OpDescription {
	out := make([]OpDescription, 0, len(table))
	for _, name := range sortedNames() {
		out = append(out, byName[name].describe())
	}
	return out
}

func (i *OpInfo) describe() OpDescription {
	d := OpDescription{Name: i.Name, Group: i.Group, Class: i.Class.String(), Doc: i.Doc, Accept: int(i.Promote.Accept),
		Compute: computeNames[i.Promote.Compute], Result: resultNames[i.Promote.Result], Skip: i.Promote.Skip,
		Torch: i.Torch, ULP: i.ULP, Domain: []IntervalSummary{}, Results: append([]string{}, i.Results...)}
	for _, s := range i.Signatures {
		d.Signatures = append(d.Signatures, s.String())
		params := make([]ParamSummary, len(s.Params))
		for k := range s.Params {
			p := &s.Params[k]
			params[k] = ParamSummary{Name: p.Name, Kind: kindNames[p.Kind], Optional: p.Optional, KeyOnly: p.KeyOnly}
			if p.Optional {
				params[k].Default = p.defaultText()
			}
		}
		d.Overloads = append(d.Overloads, params)
	}
	for _, x := range i.Domain {
		d.Domain = append(d.Domain, IntervalSummary{pythonFloat(x.Lo), pythonFloat(x.Hi)})
	}
	return d
}

// String returns the parameters as Python shows them: "(arg, dim=0)".
func (s *Signature) String() string {
	parts := make([]string, 0, len(s.Params)+1)
	for k := range s.Params {
		p := &s.Params[k]
		if p.KeyOnly && (k == 0 || !s.Params[k-1].KeyOnly) {
			parts = append(parts, "*")
		}
		text := p.Name
		if p.Optional && (p.KeyOnly || !s.requiredAfter(k)) {
			text += "=" + p.defaultText()
		}
		parts = append(parts, text)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// requiredAfter reports whether a parameter after the k-th one must be given.
// Then the k-th is always given too, be it as None.
func (s *Signature) requiredAfter(k int) bool {
	return slices.ContainsFunc(s.Params[k+1:], func(p Param) bool { return !p.Optional && !p.KeyOnly })
}

// defaultText returns the default of p as Python shows it.
func (p *Param) defaultText() string {
	if p.Text != "" {
		return p.Text
	}
	switch p.Default.Kind {
	case GivenNumber:
		return shortLiteral(p.Default)
	case GivenDType:
		return fmt.Sprintf("DataType.%v", p.Default.dtype())
	case GivenList:
		parts := make([]string, len(p.Default.List))
		for k := range p.Default.List {
			parts[k] = shortLiteral(p.Default.List[k])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "None"
}

// shortLiteral is PythonLiteral without the digits that show precision: 0.5.
func shortLiteral(g Given) string {
	if g.Num.Type.IsFloat() {
		text := floatText(g.Num.Re)
		if !strings.ContainsAny(text, ".einf") {
			text += ".0"
		}
		return text
	}
	return PythonLiteral(g.Num)
}

func (g Given) dtype() dtype.Type { return dtype.Type(g.Num.I) }

func sortedNames() []string { return slices.Sorted(maps.Keys(byName)) }
