package tests

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/executor"
	"nvfuser_go/passes"
)

// What passes.MemoryOrders says of outputs is how plans describe them.
func TestMemoryOrdersAreThoseOfPlans(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	compared := 0
	for range 1500 {
		data := make([]byte, 200)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		c := fusionfuzz.Decode(data)
		e, err := executor.NewCache(1, nil).Executor(c.Fusion)
		require.NoError(t, err)
		var inputs []executor.Input
		for i := range c.Inputs {
			in := &c.Inputs[i]
			if in.Array == nil {
				inputs = append(inputs, executor.Input{Scalar: in.Scalar})
				continue
			}
			m := in.Memory()
			inputs = append(inputs, executor.Input{Tensor: true, DType: m.DType, Data: m.Data(), Sizes: m.Sizes, Strides: m.Strides})
		}
		plan, err := e.Plan(inputs)
		if err != nil {
			continue // sizes that contradict each other
		}
		orders := passes.MemoryOrders(c.Fusion)
		for k, o := range c.Fusion.Outputs() {
			if o.Alias == core.NoVal {
				order := orders[o.Val]
				if order != nil {
					compared++
				}
				d := plan.Outputs[k]
				require.Equal(t, stridesInOrder(c.Fusion, o.Val, d.Sizes, order), d.Strides, "output %d, order %v\n%s", k, order, c.Fusion)
			}
		}
	}
	require.Greater(t, compared, 100)
}

// stridesInOrder returns the strides of v without gaps, in the order of memory.
func stridesInOrder(f *core.Fusion, v core.ValID, sizes []int64, order []int) []int64 {
	strides, step := make([]int64, len(sizes)), int64(1)
	if order == nil {
		for d := range sizes {
			order = append(order, d)
		}
	}
	for _, d := range slices.Backward(order) {
		if f.Axis(f.Axes(v)[d]).Kind == core.Broadcast && sizes[d] != 1 {
			continue
		}
		strides[d] = step
		step *= max(sizes[d], 1)
	}
	return strides
}
