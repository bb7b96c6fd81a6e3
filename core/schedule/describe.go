package schedule

import (
	"strconv"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
)

// A Description is a row of the table for other languages.
type Description struct {
	Name       string                 `json:"name"`
	Method     bool                   `json:"method"`  // called on a tensor
	Returns    string                 `json:"returns"` // nothing, tensor, tensors or refusals
	Does       string                 `json:"does"`
	Signature  string                 `json:"signature"` // as Python shows it
	Parameters []ParameterDescription `json:"parameters"`
}

// A ParameterDescription is a parameter in a [Description].
type ParameterDescription struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"` // what is taken, in words
	Optional bool   `json:"optional"`
	Default  string `json:"default"` // as Python shows it; "": there is none
}

// DescribePrimitives returns a description of each row, in the order of the table.
func DescribePrimitives() []Description {
	var out []Description
	for i := range table {
		p := &table[i]
		d := Description{Name: p.Name, Method: p.Method, Does: p.Does, Signature: p.Signature(),
			Returns: [...]string{"nothing", "tensor", "tensors", "refusals"}[p.Returns], Parameters: []ParameterDescription{}}
		for k := range p.Parameters {
			x := &p.Parameters[k]
			d.Parameters = append(d.Parameters, ParameterDescription{x.Name, x.Kind.String(), x.Optional, x.defaultText()})
		}
		out = append(out, d)
	}
	return out
}

// Signature is what Python shows after the name: (axis, factor, inner_split=True).
func (p *Primitive) Signature() string {
	parts := make([]string, len(p.Parameters))
	for i := range p.Parameters {
		x := &p.Parameters[i]
		parts[i] = x.Name
		if x.Optional {
			parts[i] += "=" + x.defaultText()
		}
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func (p *Parameter) defaultText() string {
	switch g := p.Default; {
	case !p.Optional:
		return ""
	case g.Kind == core.GivenName:
		return enumerations[p.Kind].Name + "." + g.Name
	case g.Kind == core.GivenNumber && g.Num.Type == dtype.Bool:
		return [...]string{"False", "True"}[g.Num.I]
	case g.Kind == core.GivenNumber:
		return strconv.FormatInt(g.Num.I, 10)
	}
	return "None"
}
