package core

import (
	"fmt"
	"math"
	"slices"

	"nvfuser_go/core/dtype"
	"nvfuser_go/core/numerics"
	"nvfuser_go/core/scalar"
)

const attentionDoc = " query is [N, H, L, E], key [N, Hk, S, E] and value [N, Hk, S, V], of one floating-point type. H is a multiple of Hk: " +
	"head h of query goes with head h / (H/Hk) of key and value. " +
	"The score of a query and a key is scale times their product, scale being 1/sqrt(E) if left out. " +
	"With is_causal, position i of query sees the positions of key up to i."

const dropoutDoc = " A dropout_p other than 0 is not supported."

var SdpfaFwdOp = def(OpInfo{Name: "sdpfa_fwd", Results: []string{"output", "logsumexp", "philox_seed", "philox_offset"}, Group: groupGemm, Class: Attention,
	Signatures: signature(Param{Name: "query", Kind: TensorIn}, Param{Name: "key", Kind: TensorIn}, Param{Name: "value", Kind: TensorIn},
		Param{Name: "bias", Kind: TensorIn, Optional: true}, Param{Name: "mask", Kind: TensorIn, Optional: true},
		Param{Name: "dropout_p", Kind: Number, Optional: true}, Param{Name: "is_causal", Kind: Number, Optional: true},
		Param{Name: "scale", Kind: Number, Optional: true}),
	Promote: Promotion{Accept: AcceptFloat},
	Expand:  expandAttention, Infer: inferAttention,
	NeedsWhole: func(*Fusion, *Expr) []int { return []int{3} },
	AxisMap:    attentionMap,
	Eval:       evalAttention,
	Torch: "(lambda q, k, v, g, c, s, b=bias, m=mask: (lambda a: ((torch.softmax(a, -1).nan_to_num(0.0) @ v), torch.logsumexp(a, -1), " +
		"torch.zeros((), dtype=torch.uint64), torch.zeros((), dtype=torch.uint64)))" +
		"((q @ k.mT * s + (0 if b is None else b.double()) + (0 if m is None else m.double() if m.is_floating_point() else " +
		"torch.zeros_like(m, dtype=torch.double).masked_fill(~m, -torch.inf)))" +
		".masked_fill(torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril().logical_not() & c, -torch.inf)))" +
		"(query.double(), key.double().repeat_interleave(query.shape[1] // max(key.shape[1], 1), 1), " +
		"value.double().repeat_interleave(query.shape[1] // max(value.shape[1], 1), 1), None, torch.tensor(bool(is_causal)), " +
		"max(query.shape[3], 1) ** -0.5 if scale is None else scale)",
	TorchCall: "attention.sdpfa_fwd(query, key, value, bias, mask, dropout_p, is_causal, scale, wanted)",
	Doc: "Scaled dot product attention of query, key and value: softmax of the scores times value, [N, H, L, V]; " +
		"the logarithm of the sum of the exponentials of the scores, [N, H, L] of dtype Float (Double for Double); " +
		"and the seed and offset of dropout, 0-dimensional UInt64, which are 0 without it." + attentionDoc +
		" bias is floating-point and added to the scores; a mask of Bool hides the keys where it is False, and a floating-point one is added too. " +
		"Both broadcast to [N, H, L, S]. A position that sees no key gives 0, and -inf as the logarithm." + dropoutDoc})

var SdpfaBwdOp = def(OpInfo{Name: "sdpfa_bwd", Results: []string{"grad_query", "grad_key", "grad_value"}, Group: groupGemm, Class: Attention,
	Signatures: signature(Param{Name: "grad_output", Kind: TensorIn}, Param{Name: "query", Kind: TensorIn}, Param{Name: "key", Kind: TensorIn},
		Param{Name: "value", Kind: TensorIn}, Param{Name: "output", Kind: TensorIn}, Param{Name: "logsumexp", Kind: TensorIn},
		Param{Name: "dropout_p", Kind: Number, Optional: true}, Param{Name: "is_causal", Kind: Number, Optional: true},
		Param{Name: "philox_seed", Kind: TensorIn}, Param{Name: "philox_offset", Kind: TensorIn},
		Param{Name: "scale", Kind: Number, Optional: true}),
	Promote: Promotion{Accept: AcceptFloat},
	Expand:  expandAttention, Infer: inferAttentionGrad,
	NeedsWhole: func(*Fusion, *Expr) []int { return []int{1, 2, 3} },
	AxisMap:    attentionGradMap,
	Eval:       evalAttentionGrad,
	Torch: "torch.autograd.grad(*(lambda q, k, v, c, s: (" +
		"torch.softmax((q @ k.repeat_interleave(q.shape[1] // max(k.shape[1], 1), 1).mT * s)" +
		".masked_fill(torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril().logical_not() & c, -torch.inf), -1) " +
		"@ v.repeat_interleave(q.shape[1] // max(v.shape[1], 1), 1), (q, k, v)))" +
		"(query.double().requires_grad_(), key.double().requires_grad_(), value.double().requires_grad_(), torch.tensor(bool(is_causal)), " +
		"max(query.shape[3], 1) ** -0.5 if scale is None else scale), grad_output.double())",
	TorchCall: "attention.sdpfa_bwd(grad_output, query, key, value, output, logsumexp, dropout_p, is_causal, philox_seed, philox_offset, scale)",
	Doc: "The gradients of sdpfa_fwd without bias and mask with regard to query, key and value, from the gradient of its first result, grad_output, " +
		"and from its results." + attentionDoc + " philox_seed and philox_offset are integer tensors." + dropoutDoc +
		" Formulas: T. Dao, \"FlashAttention-2\" (2023), section 3.2."})

// attentionParams are the places of the parameters that the two ops share.
type attentionParams struct{ query, key, value, dropout, causal, scale int }

func attentionArgs(op *OpInfo) attentionParams {
	at := func(name string) int {
		return slices.IndexFunc(op.Params(), func(p Param) bool { return p.Name == name })
	}
	return attentionParams{at("query"), at("key"), at("value"), at("dropout_p"), at("is_causal"), at("scale")}
}

// expandAttention converts the numbers, and broadcasts bias and mask to four
// dimensions.
func expandAttention(f *Fusion, op *OpInfo, args []Arg) ([]ValID, error) {
	p := attentionArgs(op)
	args = append([]Arg(nil), args...)
	for _, i := range []int{p.dropout, p.scale} {
		var err error
		if args[i], err = f.numberAs(op, op.Params()[i].Name, args[i], dtype.Double); err != nil {
			return nil, err
		}
	}
	for i := range args {
		if name := op.Params()[i].Name; args[i].Kind != TensorArg || name != "bias" && name != "mask" {
			continue
		}
		n := f.Rank(args[i].Tensor)
		if n >= 4 {
			continue
		}
		flags := make([]bool, 4)
		for k := range 4 - n {
			flags[k] = true
		}
		v, err := f.apply1(BroadcastOp, args[i], BoolsOf(flags...))
		if err != nil {
			return nil, err
		}
		args[i] = TensorOf(v)
	}
	return f.appendExpr(op, args)
}

// An attentionShape is the axes that the operands of an attention share.
type attentionShape struct{ n, heads, keyHeads, l, s, e, v AxisID }

// inferOperands checks query, key, value and the numbers.
func inferOperands(f *Fusion, op *OpInfo, inf *Inference, args []Arg) (shape attentionShape, t dtype.Type, err error) {
	p := attentionArgs(op)
	t = f.vals[args[p.query].Tensor].DType
	var axes [3][]AxisID
	for k, i := range []int{p.query, p.key, p.value} {
		v := args[i].Tensor
		name := op.Params()[i].Name
		if err := checkAccepted(op, name, f.vals[v].DType); err != nil {
			return shape, t, err
		}
		if f.vals[v].DType != t {
			return shape, t, invalidType("%s(): query is %v and %s is %v; cast one of them", op.Name, t, name, f.vals[v].DType)
		}
		if axes[k] = f.Axes(v); len(axes[k]) != 4 {
			return shape, t, invalidArgument("%s(): %s has %d dimensions; it must have 4: batch, heads, positions, features", op.Name, name, len(axes[k]))
		}
	}
	q, k, v := axes[0], axes[1], axes[2]
	shape = attentionShape{q[0], q[1], k[1], q[2], k[2], q[3], v[3]}
	for _, same := range []struct {
		a, b AxisID
		text string
	}{
		{q[0], k[0], "the batch size of key must be that of query"},
		{q[0], v[0], "the batch size of value must be that of query"},
		{k[1], v[1], "the number of heads of value must be that of key"},
		{k[2], v[2], "the number of positions of value must be that of key"},
		{q[3], k[3], "the number of features of key must be that of query"},
	} {
		if err := f.requireEqual(inf, op, f.Size(same.a), f.Size(same.b), same.text); err != nil {
			return shape, t, err
		}
	}
	// A quotient of heads that is exact; 0 heads of key are for 0 of query only.
	h, hk := f.Size(q[1]), f.Size(k[1])
	if h != hk {
		s := f.scalars
		exact := s.Eq(h, s.Mul(hk, s.FloorDiv(h, s.Max(hk, s.Int(1)))))
		if err := f.require(inf, op, exact, h, hk, "the number of heads of query must be a multiple of that of key"); err != nil {
			return shape, t, err
		}
	}
	if err := f.checkNumber(op, "dropout_p", args[p.dropout], dtype.Double); err != nil {
		return shape, t, err
	}
	if err := f.checkNumber(op, "is_causal", args[p.causal], dtype.Bool); err != nil {
		return shape, t, err
	}
	if err := f.checkNumber(op, "scale", args[p.scale], dtype.Double); err != nil {
		return shape, t, err
	}
	if args[p.dropout].Kind != NoArg {
		if c, ok := f.scalars.ConstValue(args[p.dropout].Scalar); ok {
			err = checkProbability(op, c.Re)
		}
	}
	return shape, t, err
}

func checkProbability(op *OpInfo, p float64) error {
	if !(p >= 0 && p <= 1) {
		return invalidArgument("%s(): dropout_p is %v; a probability is from 0 to 1", op.Name, p)
	}
	return nil
}

// logsumexpType is the type of logsumexp for operands of type t.
func logsumexpType(t dtype.Type) dtype.Type {
	if t == dtype.Double {
		return t
	}
	return dtype.Float
}

func (f *Fusion) denseAxes(axes ...AxisID) []AxisID {
	out := make([]AxisID, len(axes))
	for i, a := range axes {
		out[i] = f.denseAxis(a)
	}
	return out
}

func inferAttention(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	x, t, err := inferOperands(f, op, &inf, args)
	if err != nil {
		return inf, err
	}
	for _, i := range []int{3, 4} {
		if args[i].Kind == NoArg {
			continue
		}
		name := op.Params()[i].Name
		if m := f.vals[args[i].Tensor].DType; !m.IsFloat() && (i == 3 || m != dtype.Bool) {
			kinds := "floating-point"
			if i == 4 {
				kinds = "bool or floating-point"
			}
			return inf, invalidType("%s(): %s must be of %s type, got %v", op.Name, name, kinds, m)
		}
		axes := f.Axes(args[i].Tensor)
		if len(axes) != 4 {
			return inf, invalidArgument("%s(): %s has %d dimensions; it must broadcast to the 4 of the scores", op.Name, name, len(axes))
		}
		for d, want := range []AxisID{x.n, x.heads, x.l, x.s} {
			if a := f.axes[axes[d]]; a.Kind == Broadcast && a.Expanded == scalar.None {
				continue
			}
			text := fmt.Sprintf("the size of dimension %d of %s must be that of the scores, or 1 by the definition", d, name)
			if err := f.requireEqual(&inf, op, f.Size(axes[d]), f.Size(want), text); err != nil {
				return inf, err
			}
		}
	}
	inf.add(t, f.denseAxes(x.n, x.heads, x.l, x.v))
	inf.add(logsumexpType(t), f.denseAxes(x.n, x.heads, x.l))
	inf.add(dtype.UInt64, nil)
	inf.add(dtype.UInt64, nil)
	return inf, nil
}

// headMap is where the heads of query are among those of key and value: the
// same if there are as many, else nowhere.
func headMap(f *Fusion, e *Expr) int {
	p := attentionArgs(e.Op)
	if f.Shape(e.Args[p.query].Tensor)[1] != f.Shape(e.Args[p.key].Tensor)[1] {
		return -1
	}
	return 1
}

func attentionMap(f *Fusion, e *Expr, k, out int) []int {
	if out > 1 {
		return nil
	}
	m := []int{0, 1, 2, -1}
	switch k {
	case 1:
		m = []int{0, headMap(f, e), -1, -1}
	case 2:
		m = []int{0, headMap(f, e), -1, 3}
	}
	return m[:4-out]
}

func attentionGradMap(f *Fusion, e *Expr, k, out int) []int {
	h := headMap(f, e)
	if k > 5 { // the random state
		return []int{-1, -1, -1, -1}
	}
	isKey := k == 2 || k == 3
	if out == 0 {
		if isKey {
			return []int{0, h, -1, -1}
		}
		return []int{0, 1, 2, -1}
	}
	if isKey {
		return []int{0, 1, 2, -1}
	}
	return []int{0, h, -1, -1}
}

func inferAttentionGrad(f *Fusion, op *OpInfo, args []Arg) (Inference, error) {
	var inf Inference
	x, t, err := inferOperands(f, op, &inf, args)
	if err != nil {
		return inf, err
	}
	for _, like := range []struct {
		arg  int
		t    dtype.Type
		axes []AxisID
	}{
		{0, t, []AxisID{x.n, x.heads, x.l, x.v}},
		{4, t, []AxisID{x.n, x.heads, x.l, x.v}},
		{5, logsumexpType(t), []AxisID{x.n, x.heads, x.l}},
	} {
		v, name := args[like.arg].Tensor, op.Params()[like.arg].Name
		if f.vals[v].DType != like.t {
			return inf, invalidType("%s(): %s is %v and must be %v beside a query of %v", op.Name, name, f.vals[v].DType, like.t, t)
		}
		axes := f.Axes(v)
		if len(axes) != len(like.axes) {
			return inf, invalidArgument("%s(): %s has %d dimensions; it must have %d", op.Name, name, len(axes), len(like.axes))
		}
		for d, want := range like.axes {
			text := fmt.Sprintf("the size of dimension %d of %s must be that of the forward result", d, name)
			if err := f.requireEqual(&inf, op, f.Size(axes[d]), f.Size(want), text); err != nil {
				return inf, err
			}
		}
	}
	for _, i := range []int{8, 9} {
		if err := f.checkIndex(op, op.Params()[i].Name, args[i].Tensor); err != nil {
			return inf, err
		}
	}
	inf.add(t, f.denseAxes(x.n, x.heads, x.l, x.e))
	inf.add(t, f.denseAxes(x.n, x.keyHeads, x.s, x.e))
	inf.add(t, f.denseAxes(x.n, x.keyHeads, x.s, x.v))
	return inf, nil
}

// CheckDropout returns an error if the attention e drops scores out: a CPU
// cannot reproduce the random numbers of the kernels that do.
//
// Errors: InvalidArgument for a dropout_p that is not a probability,
// Unsupported for one that is not 0.
func (b *Binding) CheckDropout(e *Expr) error {
	a := e.Args[attentionArgs(e.Op).dropout]
	if a.Kind == NoArg {
		return nil
	}
	v, err := b.Value(a.Scalar)
	if err != nil {
		return err
	}
	if err := checkProbability(e.Op, v.Re); err != nil {
		return b.located(e, err)
	}
	if v.Re != 0 {
		return &Unsupported{What: fmt.Sprintf("%s(): dropout_p is %v, and dropout in attention is not supported; use 0", e.Op.Name, v.Re)}
	}
	return nil
}

// An attention reads the operands of one evaluation by head and position.
type attention struct {
	q, k, v    *Array
	bias, mask *Array
	causal     bool
	scale      float64
	group      int64 // heads of query for one of key
	n, h, l, s int64
	e, width   int64 // features of query and key, of value
}

func newAttention(c *Evaluation) (*attention, error) {
	p := attentionArgs(c.Expr.Op)
	if err := c.CheckDropout(c.Expr); err != nil {
		return nil, err
	}
	a := &attention{q: c.In(p.query), k: c.In(p.key), v: c.In(p.value), scale: 1}
	a.n, a.h, a.l, a.e = a.q.Shape[0], a.q.Shape[1], a.q.Shape[2], a.q.Shape[3]
	a.s, a.width = a.k.Shape[2], a.v.Shape[3]
	a.group = a.h / max(a.k.Shape[1], 1)
	if a.e > 0 {
		a.scale = 1 / math.Sqrt(float64(a.e))
	}
	var err error
	if a.scale, err = c.floatOr(p.scale, a.scale); err != nil {
		return nil, err
	}
	if c.Has(p.causal) {
		v, err := c.ScalarAt(p.causal, dtype.Bool)
		if err != nil {
			return nil, err
		}
		a.causal = asBool(v)
	}
	return a, nil
}

// row returns the offset of the features of position i of head h in x.
func row(x *Array, n, h, i int64) int64 {
	return ((n*x.Shape[1]+h)*x.Shape[2] + i) * x.Shape[3]
}

// dot is the product of count features of x from i and of y from j on.
func dot(x *Array, i int64, y *Array, j, count int64) float64 {
	sum := 0.0
	for d := range count {
		sum += float64(x.F[i+d] * y.F[j+d])
	}
	return sum
}

// score returns the score of query position i and key position j, -Inf if i
// does not see j.
func (a *attention) score(n, h, i, j int64) float64 {
	at := []int64{n, h, i, j}
	if a.causal && j > i || a.mask != nil && a.mask.I != nil && a.mask.I[broadcastOffset(a.mask.Shape, at)] == 0 {
		return math.Inf(-1)
	}
	score := a.scale * dot(a.q, row(a.q, n, h, i), a.k, row(a.k, n, h/a.group, j), a.e)
	for _, added := range []*Array{a.bias, a.mask} {
		if added != nil && added.F != nil {
			score += added.F[broadcastOffset(added.Shape, at)]
		}
	}
	return score
}

// evalAttention computes softmax(scores) @ value one query position at a time.
func evalAttention(c *Evaluation) error {
	a, err := newAttention(c)
	if err != nil {
		return err
	}
	if c.Has(3) {
		a.bias = c.In(3)
	}
	if c.Has(4) {
		a.mask = c.In(4)
	}
	var out [4]*Array
	for k := range out {
		if out[k], err = c.Out(k); err != nil {
			return err
		}
	}
	scores := make([]float64, a.s)
	EachIndex([]int64{a.n, a.h, a.l}, func(index []int64) {
		n, h, i := index[0], index[1], index[2]
		most, sum := math.Inf(-1), 0.0
		for j := range scores {
			scores[j] = a.score(n, h, i, int64(j))
			most = numerics.MaximumNaN(most, scores[j])
		}
		line := Offset([]int64{a.n, a.h, a.l}, index)
		if math.IsInf(most, -1) { // sees no key
			out[1].F[line] = most
			return
		}
		for j := range scores {
			scores[j] = math.Exp(scores[j] - most)
			sum += scores[j]
		}
		out[1].F[line] = dtype.Round(out[1].Type, most+math.Log(sum))
		for d := range a.width {
			acc := 0.0
			for j, w := range scores {
				if w != 0 { // what is not seen is not read
					acc += float64(w / sum * a.v.F[row(a.v, n, h/a.group, int64(j))+d])
				}
			}
			out[0].F[line*a.width+d] = dtype.Round(out[0].Type, acc)
		}
	})
	return nil
}

// evalAttentionGrad computes, with P = exp(scores - logsumexp) and dP the
// product of grad_output and value,
//
//	dV = P^T grad_output    dS = P * (dP - sum(grad_output * output))
//	dQ = scale * dS K       dK = scale * dS^T Q
func evalAttentionGrad(c *Evaluation) error {
	a, err := newAttention(c)
	if err != nil {
		return err
	}
	grad, output, logsumexp := c.In(0), c.In(4), c.In(5)
	var out [3]*Array
	var acc [3][]float64
	for k := range out {
		if out[k], err = c.Out(k); err != nil {
			return err
		}
		acc[k] = make([]float64, out[k].Len())
	}
	EachIndex([]int64{a.n, a.h, a.l}, func(index []int64) {
		n, h, i := index[0], index[1], index[2]
		lse := logsumexp.F[Offset(logsumexp.Shape, index)]
		g, q := row(grad, n, h, i), row(a.q, n, h, i)
		delta := dot(grad, g, output, g, a.width)
		for j := range a.s {
			score := a.score(n, h, i, j)
			if math.IsInf(score, -1) || math.IsInf(lse, -1) {
				continue
			}
			k, v := row(a.k, n, h/a.group, j), row(a.v, n, h/a.group, j)
			p := math.Exp(score - lse)
			ds := a.scale * p * (dot(grad, g, a.v, v, a.width) - delta)
			for d := range a.e {
				acc[0][q+d] += float64(ds * a.k.F[k+d])
				acc[1][k+d] += float64(ds * a.q.F[q+d])
			}
			for d := range a.width {
				acc[2][v+d] += float64(p * grad.F[g+d])
			}
		}
	})
	for k := range out {
		for i, x := range acc[k] {
			out[k].F[i] = dtype.Round(out[k].Type, x)
		}
	}
	return nil
}
