package fusionfuzz

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// favourites are called more often than the other rows: what fusions are made
// of.
var favourites = []string{"add", "mul", "sub", "where", "exp", "neg", "cast", "sum", "max", "broadcast", "permute", "reshape", "slice", "pad", "cat",
	"expand", "squeeze", "var_mean", "cumsum", "broadcast_in_dim", "sum", "add", "mul", "min", "prod", "gather", "full", "iota",
	"index_select", "take_along_axis", "scatter", "index_put_accumulate", "argsort", "topk", "matmul", "linear", "select", "triu"}

// call adds one operation, if the definition takes it.
func (d *decoder) call() {
	var op *core.OpInfo
	if d.below(3) > 0 {
		op = core.Lookup(favourites[d.below(len(favourites))])
	} else {
		all := core.Ops()
		op = all[(int(d.byte())*len(all)/256+int(d.byte()))%len(all)]
	}
	if op == nil {
		return
	}
	params := op.Signatures[d.below(len(op.Signatures))].Params
	first := d.tensor()
	var given []core.Given
	var keywords []core.Keyword
	keyed := false // a parameter was left out
	for i, p := range params {
		if p.Optional && d.chance(2) {
			keyed = true
			continue
		}
		x := first
		if i > 0 {
			x = d.tensor()
		}
		g := d.argument(op, &p, i, first, x)
		if keyed || p.KeyOnly {
			keywords = append(keywords, core.Keyword{Name: p.Name, Given: g})
		} else {
			given = append(given, g)
		}
	}
	out, err := d.f.Call(op, given, keywords)
	if err != nil {
		return
	}
	for _, v := range out {
		if d.f.Val(v).Tensor && d.small(v) {
			d.tensors = append(d.tensors, v)
		} else if !d.f.Val(v).Tensor {
			d.scalars = append(d.scalars, v)
		}
	}
}

// small reports whether v can be expected to have few elements: a symbolic size
// counts as the largest one of an input.
func (d *decoder) small(v core.ValID) bool {
	n := int64(1)
	for _, s := range d.f.Shape(v) {
		size, ok := d.f.Scalars().ConstInt(s)
		if !ok {
			size = 33
		}
		if n *= size; n > maxResult {
			return false
		}
	}
	return true
}

// tensor picks a tensor, one of the last most often.
func (d *decoder) tensor() core.ValID {
	n := len(d.tensors)
	back := d.below(4 * n)
	if back >= n {
		back = back % 3 % n
	}
	return d.tensors[n-1-back]
}

func number(v scalar.Value) core.Given { return core.Given{Kind: core.GivenNumber, Num: v} }

func integer(n int64) core.Given { return number(scalar.Value{Type: dtype.Int, I: n}) }

func flag(b bool) core.Given {
	v := scalar.Value{Type: dtype.Bool}
	if b {
		v.I = 1
	}
	return number(v)
}

func value(v core.ValID) core.Given { return core.Given{Kind: core.GivenVal, Val: v} }

func list(g ...core.Given) core.Given { return core.Given{Kind: core.GivenList, List: g} }

// argument makes an argument for parameter i of op, which is called on first. x
// is another tensor.
func (d *decoder) argument(op *core.OpInfo, p *core.Param, i int, first, x core.ValID) core.Given {
	rank := d.f.Rank(first)
	switch p.Kind {
	case core.Operand:
		if i > 0 && d.below(3) == 0 {
			return d.number()
		}
		return value(x)
	case core.TensorIn:
		return value(x)
	case core.TensorsIn:
		all := []core.Given{value(first)}
		for range d.below(3) {
			all = append(all, value(d.tensor()))
		}
		return list(all...)
	case core.Number:
		return d.number()
	case core.Extent:
		return d.extent(first)
	case core.Shape:
		return d.shape(op, p, first)
	case core.Integer:
		return integer(int64(d.below(4)))
	case core.Integers:
		return d.integers(rank)
	case core.Dim:
		return integer(int64(d.below(2*max(rank, 1))) - int64(rank))
	case core.Dims:
		return d.dims(rank)
	case core.Flag:
		return flag(d.chance(2))
	case core.Flags:
		return d.flags(rank)
	case core.Dtype:
		return core.Given{Kind: core.GivenDType, Num: scalar.Value{I: int64(dtypes[d.below(len(dtypes))])}}
	}
	return core.Given{}
}

func (d *decoder) number() core.Given {
	if len(d.scalars) > 0 && d.chance(2) {
		return value(d.scalars[d.below(len(d.scalars))])
	}
	switch d.below(4) {
	case 0:
		return integer(int64(d.below(9)) - 3)
	case 1:
		return flag(d.chance(2))
	}
	return number(scalar.Value{Type: dtype.Double, Re: float64(d.below(41)-20) / 8})
}

func (d *decoder) extent(v core.ValID) core.Given {
	switch shape := d.f.Shape(v); {
	case len(d.scalars) > 0 && d.chance(4):
		return value(d.scalars[d.below(len(d.scalars))])
	case len(shape) > 0 && d.chance(2):
		return value(d.f.ScalarVal(shape[d.below(len(shape))]))
	}
	return integer(sizes[d.below(len(sizes))])
}

// shape makes a list of extents that op may take for first.
func (d *decoder) shape(op *core.OpInfo, p *core.Param, first core.ValID) core.Given {
	shape := d.f.Shape(first)
	var out []core.Given
	switch {
	case op.Name == "slice" || op.Name == "pad":
		for range shape {
			n := int64(d.below(4))
			if p.Name == "end_indices" {
				n = int64(d.below(36))
			}
			if p.Name == "strides" {
				n = 1
			}
			if op.Name == "pad" {
				out = append(out, integer(int64(d.below(4))-1))
				n--
			}
			out = append(out, integer(n))
		}
		return list(out...)
	case op.Name == "reshape":
		return d.newShape(shape)
	}
	for _, s := range shape {
		switch n, ok := d.f.Scalars().ConstInt(s); {
		case ok && n == 1 && d.chance(2):
			out = append(out, integer(sizes[d.below(len(sizes))]))
		case d.chance(3):
			out = append(out, integer(-1))
		default:
			out = append(out, value(d.f.ScalarVal(s)))
		}
	}
	if d.chance(3) {
		out = append([]core.Given{integer(int64(1 + d.below(4)))}, out...)
	}
	return list(out...)
}

// newShape joins and cuts the dimensions of shape.
func (d *decoder) newShape(shape []scalar.ID) core.Given {
	var out []core.Given
	t := d.f.Scalars()
	for i := 0; i < len(shape); i++ {
		n, ok := t.ConstInt(shape[i])
		switch {
		case i+1 < len(shape) && d.chance(2):
			out = append(out, value(d.f.ScalarVal(t.Mul(shape[i], shape[i+1]))))
			i++
		case ok && n > 1 && n%2 == 0 && d.chance(2):
			out = append(out, integer(2), integer(n/2))
		case ok && n > 1 && n%3 == 0 && d.chance(2):
			out = append(out, integer(n/3), integer(3))
		case d.chance(6):
			out = append(out, integer(1), value(d.f.ScalarVal(shape[i])))
		case d.chance(6):
			out = append(out, integer(-1))
		default:
			out = append(out, value(d.f.ScalarVal(shape[i])))
		}
	}
	return list(out...)
}

// integers makes a permutation or ascending dimensions.
func (d *decoder) integers(rank int) core.Given {
	perm := make([]core.Given, rank)
	for i := range perm {
		perm[i] = integer(int64(i))
	}
	for i := range perm {
		j := d.below(rank)
		perm[i], perm[j] = perm[j], perm[i]
	}
	if d.chance(3) {
		slices.SortFunc(perm, func(a, b core.Given) int { return int(a.Num.I - b.Num.I) })
		for i := range perm {
			perm[i].Num.I++
		}
	}
	return list(perm...)
}

func (d *decoder) dims(rank int) core.Given {
	var out []core.Given
	mask := d.byte()
	for i := range rank {
		if mask>>i&1 != 0 {
			out = append(out, integer(int64(i)))
		}
	}
	return list(out...)
}

// flags makes rank flags that are False and up to two that are True.
func (d *decoder) flags(rank int) core.Given {
	var out []core.Given
	extra := 1 + d.below(2)
	for i := 0; i < rank || extra > 0; {
		if extra > 0 && (i == rank || d.chance(2)) {
			out = append(out, flag(true))
			extra--
			continue
		}
		out = append(out, flag(false))
		i++
	}
	return list(out...)
}
