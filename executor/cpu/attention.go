package cpu

import (
	"math"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/numerics"
	"nvfuser_go/core/scalar"
)

var zeroScalar scalar.Value

// An attention is what the two attention operations share: the operands by
// argument name, and the numbers.
type attention struct {
	q, k, v, bias, mask *tensor
	causal              bool
	scale               float64
	n, h, l, s, e       int64
	keyHeads, width     int64
}

func (b *builder) attention(s *opaqueStep) (*attention, error) {
	if err := b.b.CheckDropout(s.e); err != nil {
		return nil, err
	}
	operand := func(name string) *tensor {
		i := slices.IndexFunc(s.e.Op.Params(), func(p core.Param) bool { return p.Name == name })
		if k, ok := s.operand[i]; i >= 0 && ok {
			return &s.in[k]
		}
		return nil
	}
	number := func(name string, t dtype.Type, otherwise scalar.Value) (scalar.Value, error) {
		return b.argument(s, slices.IndexFunc(s.e.Op.Params(), func(p core.Param) bool { return p.Name == name }), t, otherwise)
	}
	a := &attention{q: operand("query"), k: operand("key"), v: operand("value"), bias: operand("bias"), mask: operand("mask")}
	a.n, a.h, a.l, a.e = a.q.sizes[0], a.q.sizes[1], a.q.sizes[2], a.q.sizes[3]
	a.keyHeads, a.s, a.width = a.k.sizes[1], a.k.sizes[2], a.v.sizes[3]
	scale, err := number("scale", dtype.Double, scalar.Value{Re: 1 / math.Sqrt(float64(max(a.e, 1)))})
	if err != nil {
		return nil, err
	}
	causal, err := number("is_causal", dtype.Bool, scalar.Value{})
	a.scale, a.causal = scale.Re, causal.I != 0
	return a, err
}

// dense returns the elements of t in row-major order, in float64 (0 and 1 of a
// Bool).
func dense(r *run, t *tensor) ([]float64, error) {
	out := make([]float64, core.NumElements(t.sizes))
	if len(out) == 0 {
		return out, nil
	}
	last := len(t.sizes) - 1
	lines, n := along(t.sizes, last)
	strides := denseOf(t.sizes)
	return out, r.eachLine(lines, n, func(l *line) {
		to := out[offsetOf(strides, l.index):][:n]
		p, step := t.at(r, t.lineAt(l.index, last)), int(t.strides[last])
		if t.dtype.IsBool() {
			for i, x := range load[uint8](t.dtype, p, step, n) {
				to[i] = float64(x)
			}
			return
		}
		readFloats(to, t.dtype, p, step)
	})
}

// denseOf returns the row-major strides of sizes.
func denseOf(sizes []int64) []int64 {
	strides, step := make([]int64, len(sizes)), int64(1)
	for d := len(sizes) - 1; d >= 0; d-- {
		strides[d] = step
		step *= sizes[d]
	}
	return strides
}

// loaded holds operands of an attention in row-major order.
type loaded struct {
	*attention
	q, k, v []float64
	// Added to the scores, and hiding keys where 0; with their strides.
	added         [][]float64
	addedStrides  [][]int64
	hidden        []float64
	hiddenStrides []int64
}

func (a *attention) load(r *run) (*loaded, error) {
	x := &loaded{attention: a}
	var err error
	for _, to := range []struct {
		to   *[]float64
		from *tensor
	}{{&x.q, a.q}, {&x.k, a.k}, {&x.v, a.v}} {
		if *to.to, err = dense(r, to.from); err != nil {
			return nil, err
		}
	}
	for _, m := range []*tensor{a.bias, a.mask} {
		if m == nil {
			continue
		}
		values, err := dense(r, m)
		if err != nil {
			return nil, err
		}
		strides := within(denseOf(m.sizes), m.sizes) // a size of 1 is broadcast
		if m.dtype.IsBool() {
			x.hidden, x.hiddenStrides = values, strides
		} else {
			x.added, x.addedStrides = append(x.added, values), append(x.addedStrides, strides)
		}
	}
	return x, nil
}

func dot(x, y []float64) float64 {
	sum := 0.0
	for i, a := range x {
		sum += float64(a * y[i])
	}
	return sum
}

// query returns the features of position i of head h.
func (x *loaded) query(n, h, i int64) []float64 { return x.q[((n*x.h+h)*x.l+i)*x.e:][:x.e] }

func (x *loaded) keyHead(h int64) int64 { return h / (x.h / max(x.keyHeads, 1)) }

func (x *loaded) key(n, hk, j int64) []float64 { return x.k[((n*x.keyHeads+hk)*x.s+j)*x.e:][:x.e] }

func (x *loaded) value(n, hk, j int64) []float64 {
	return x.v[((n*x.keyHeads+hk)*x.s+j)*x.width:][:x.width]
}

// score is the score of query position i of head h and key position j.
func (x *loaded) score(n, h, i, j int64) float64 {
	at := [4]int64{n, h, i, j}
	if x.causal && j > i || x.hidden != nil && x.hidden[offsetOf(x.hiddenStrides, at[:])] == 0 {
		return math.Inf(-1)
	}
	score := x.scale * dot(x.query(n, h, i), x.key(n, x.keyHead(h), j))
	for k, added := range x.added {
		score += added[offsetOf(x.addedStrides[k], at[:])]
	}
	return score
}

// attentionForward computes softmax(scores) value, one query position at a time.
func attentionForward(b *builder, s *opaqueStep) (func(r *run) error, error) {
	a, err := b.attention(s)
	if err != nil {
		return nil, err
	}
	return func(r *run) error {
		x, err := a.load(r)
		if err != nil {
			return err
		}
		for k := 2; k < 4; k++ { // the random state of dropout
			if err := fill(r, &s.out[k], zeroScalar); err != nil {
				return err
			}
		}
		return r.eachLine([]int64{a.n, a.h, a.l}, a.s*(a.e+a.width+16), func(l *line) {
			out, logsumexp := x.attend(l.index[0], l.index[1], l.index[2])
			s.out[1].storeFloat(r, offsetOf(s.out[1].strides, l.index), logsumexp)
			at := s.out[0].lineAt(l.index, 3)
			for d, v := range out {
				s.out[0].storeFloat(r, at+int64(d)*s.out[0].strides[3], v)
			}
		})
	}, nil
}

func (t *tensor) storeFloat(r *run, offset int64, v float64) {
	dtype.StoreFloat(t.dtype, elements[byte](t.at(r, offset), t.dtype.Size()), v)
}

// attend returns the result of query position i of head h, and the logarithm of
// the sum of the exponentials of its scores.
func (x *loaded) attend(n, h, i int64) ([]float64, float64) {
	out, scores := make([]float64, x.width), make([]float64, x.s)
	most, sum := math.Inf(-1), 0.0
	for j := range scores {
		scores[j] = x.score(n, h, i, int64(j))
		most = numerics.MaximumNaN(most, scores[j])
	}
	if math.IsInf(most, -1) { // sees no key
		return out, most
	}
	for j := range scores {
		scores[j] = math.Exp(scores[j] - most)
		sum += scores[j]
	}
	for j, w := range scores {
		if w == 0 { // what is not seen is not read
			continue
		}
		w /= sum
		for d, v := range x.value(n, x.keyHead(h), int64(j)) {
			out[d] += float64(w * v)
		}
	}
	return out, most + math.Log(sum)
}

// attentionBackward computes the gradients; see the row for the formulas. Each
// task is a head of key and the heads of query that go with it.
func attentionBackward(b *builder, s *opaqueStep) (func(r *run) error, error) {
	a, err := b.attention(s)
	if err != nil {
		return nil, err
	}
	return func(r *run) error {
		x, err := a.load(r)
		if err != nil {
			return err
		}
		var given [3][]float64 // grad_output, output, logsumexp
		for k, i := range []int{0, 4, 5} {
			if given[k], err = dense(r, &s.in[s.operand[i]]); err != nil {
				return err
			}
		}
		group := a.h / max(a.keyHeads, 1)
		return r.each(a.n*a.keyHeads, group*a.l*a.s*(a.e+a.width+16), func(task int64) {
			x.gradients(r, s, given, task/a.keyHeads, task%a.keyHeads, group)
		})
	}, nil
}

func (x *loaded) gradients(r *run, s *opaqueStep, given [3][]float64, n, hk, group int64) {
	dk, dv := make([]float64, x.s*x.e), make([]float64, x.s*x.width)
	for h := hk * group; h < (hk+1)*group; h++ {
		for i := range x.l {
			row := (n*x.h+h)*x.l + i
			grad, output, lse := given[0][row*x.width:][:x.width], given[1][row*x.width:][:x.width], given[2][row]
			dq, q := make([]float64, x.e), x.query(n, h, i)
			delta := dot(grad, output)
			for j := range x.s {
				score := x.score(n, h, i, j)
				if math.IsInf(score, -1) || math.IsInf(lse, -1) {
					continue
				}
				key := x.key(n, hk, j)
				p := math.Exp(score - lse)
				ds := x.scale * p * (dot(grad, x.value(n, hk, j)) - delta)
				for d := range x.e {
					dq[d] += float64(ds * key[d])
					dk[j*x.e+d] += float64(ds * q[d])
				}
				for d := range x.width {
					dv[j*x.width+d] += float64(p * grad[d])
				}
			}
			s.out[0].storeRow(r, []int64{n, h, i}, dq)
		}
	}
	for j := range x.s {
		s.out[1].storeRow(r, []int64{n, hk, j}, dk[j*x.e:][:x.e])
		s.out[2].storeRow(r, []int64{n, hk, j}, dv[j*x.width:][:x.width])
	}
}

// storeRow stores the last dimension of t at index of the others.
func (t *tensor) storeRow(r *run, index []int64, values []float64) {
	last := len(t.sizes) - 1
	at := t.lineAt(index, last)
	for d, v := range values {
		t.storeFloat(r, at+int64(d)*t.strides[last], v)
	}
}
