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

// rowProducts sets out to the products of x with the rows of y. Four sums at a
// time do not wait for each other, as the terms of one do.
func rowProducts(out, x, y []float64) {
	n := len(x)
	j := 0
	for ; j+4 <= len(out); j += 4 {
		y0, y1, y2, y3 := y[j*n:][:n], y[(j+1)*n:][:n], y[(j+2)*n:][:n], y[(j+3)*n:][:n]
		var a, b, c, d float64
		for i, v := range x {
			a += float64(v * y0[i])
			b += float64(v * y1[i])
			c += float64(v * y2[i])
			d += float64(v * y3[i])
		}
		out[j], out[j+1], out[j+2], out[j+3] = a, b, c, d
	}
	for ; j < len(out); j++ {
		out[j] = dot(x, y[j*n:][:n])
	}
}

// addRows adds the rows of y, each times its weight in total, to sums: one after
// the other, four in a pass. Rows of weight 0 are not read.
func addRows(sums, weights []float64, total float64, y []float64) {
	n := len(sums)
	for j := 0; j < len(weights); j += 4 {
		w := weights[j:min(j+4, len(weights))]
		if len(w) < 4 || slices.Contains(w, 0) {
			for k, a := range w {
				if a != 0 {
					a /= total
					for i, v := range y[(j+k)*n:][:n] {
						sums[i] += float64(a * v)
					}
				}
			}
			continue
		}
		y0, y1, y2, y3 := y[j*n:][:n], y[(j+1)*n:][:n], y[(j+2)*n:][:n], y[(j+3)*n:][:n]
		a, b, c, d := w[0]/total, w[1]/total, w[2]/total, w[3]/total
		for i, s := range sums {
			s += float64(a * y0[i])
			s += float64(b * y1[i])
			s += float64(c * y2[i])
			sums[i] = s + float64(d*y3[i])
		}
	}
}

// query returns the features of position i of head h.
func (x *loaded) query(n, h, i int64) []float64 { return x.q[((n*x.h+h)*x.l+i)*x.e:][:x.e] }

func (x *loaded) keyHead(h int64) int64 { return h / (x.h / max(x.keyHeads, 1)) }

// keys and values return the rows of all positions of a head of key.
func (x *loaded) keys(n, hk int64) []float64 { return x.k[(n*x.keyHeads+hk)*x.s*x.e:][:x.s*x.e] }

func (x *loaded) values(n, hk int64) []float64 {
	return x.v[(n*x.keyHeads+hk)*x.s*x.width:][:x.s*x.width]
}

// scores sets out to the scores of query position i of head h and every key
// position: minus infinity for what is not seen.
func (x *loaded) scores(out []float64, n, h, i int64) {
	seen := x.s
	if x.causal {
		seen = min(seen, i+1)
	}
	rowProducts(out[:seen], x.query(n, h, i), x.keys(n, x.keyHead(h)))
	for j := range out[:seen] {
		out[j] *= x.scale
	}
	for j := seen; j < x.s; j++ {
		out[j] = math.Inf(-1)
	}
	row := []int64{n, h, i}
	for k, added := range x.added {
		at, step := offsetOf(x.addedStrides[k], row), x.addedStrides[k][3]
		for j := range out[:seen] {
			out[j] += added[at+int64(j)*step]
		}
	}
	if x.hidden != nil {
		at, step := offsetOf(x.hiddenStrides, row), x.hiddenStrides[3]
		for j := range out[:seen] {
			if x.hidden[at+int64(j)*step] == 0 {
				out[j] = math.Inf(-1)
			}
		}
	}
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
	x.scores(scores, n, h, i)
	for _, score := range scores {
		most = numerics.MaximumNaN(most, score)
	}
	if math.IsInf(most, -1) { // sees no key
		return out, most
	}
	for j := range scores {
		scores[j] = math.Exp(scores[j] - most)
		sum += scores[j]
	}
	addRows(out, scores, sum, x.values(n, x.keyHead(h)))
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
	scores, weights := make([]float64, x.s), make([]float64, x.s) // the gradients of the weights
	keys, values := x.keys(n, hk), x.values(n, hk)
	for h := hk * group; h < (hk+1)*group; h++ {
		for i := range x.l {
			row := (n*x.h+h)*x.l + i
			grad, output, lse := given[0][row*x.width:][:x.width], given[1][row*x.width:][:x.width], given[2][row]
			dq, q := make([]float64, x.e), x.query(n, h, i)
			delta := dot(grad, output)
			x.scores(scores, n, h, i)
			rowProducts(weights, grad, values)
			for j := range x.s {
				if math.IsInf(scores[j], -1) || math.IsInf(lse, -1) {
					continue
				}
				key := keys[j*x.e:][:x.e]
				p := math.Exp(scores[j] - lse)
				ds := x.scale * p * (weights[j] - delta)
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
