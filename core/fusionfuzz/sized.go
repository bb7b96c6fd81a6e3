package fusionfuzz

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// ParseSized reads a fusion after comments such as "# small 2x3 - 0.5", which give inputs
// under a name, a word each: the sizes of a tensor, "-" for one without dimensions, or
// the value of a scalar. The fusion is frozen.
func ParseSized(text string) (*core.Fusion, map[string][]core.InputValue, error) {
	f, err := core.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	f.Freeze()
	all := map[string][]core.InputValue{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "#" {
			break
		}
		if all[words[1]], err = parseInputs(f, words[2:]); err != nil {
			return nil, nil, fmt.Errorf("inputs %s: %w", words[1], err)
		}
	}
	return f, all, nil
}

func parseInputs(f *core.Fusion, words []string) ([]core.InputValue, error) {
	if len(words) != len(f.Inputs()) {
		return nil, fmt.Errorf("there are %d for %d", len(words), len(f.Inputs()))
	}
	var all []core.InputValue
	for i, v := range f.Inputs() {
		val := f.Val(v)
		if !val.Tensor {
			x, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				return nil, err
			}
			all = append(all, core.InputValue{Scalar: core.ConvertScalar(val.DType, scalar.Value{Type: dtype.Double, Re: x})})
			continue
		}
		in := core.InputValue{Tensor: true, DType: val.DType}
		for word := range strings.SplitSeq(words[i], "x") {
			if word == "-" {
				continue
			}
			n, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return nil, err
			}
			in.Sizes = append(in.Sizes, n)
		}
		all = append(all, in)
	}
	return all, nil
}

// Tame returns dense inputs of these descriptions for f: numbers between -1 and 1,
// integers from 0 to 7, so that what a program of a user computes is mostly finite.
func Tame(f *core.Fusion, values []core.InputValue, seed uint64) []Input {
	r := rand.New(rand.NewPCG(seed, 1))
	var all []Input
	for i, v := range values {
		in := Input{Scalar: v.Scalar}
		if v.Tensor {
			in.Array, in.Strides = core.NewArray(v.DType, v.Sizes), DenseStrides(f, f.Inputs()[i], v.Sizes)
			for k := range int64(in.Array.Len()) {
				x := scalar.Value{Type: v.DType, I: int64(r.IntN(8)), Re: 2*r.Float64() - 1}
				switch {
				case v.DType == dtype.Bool:
					x.I %= 2
				case v.DType.IsFloat():
					x = core.ConvertScalar(v.DType, scalar.Value{Type: dtype.Double, Re: x.Re})
				}
				in.Array.Set(k, x)
			}
		}
		all = append(all, in)
	}
	return all
}
