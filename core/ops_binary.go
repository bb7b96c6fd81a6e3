package core

import "nvfuser_go/core/scalar"

// binary fills a row for an elementwise op of two operands.
func binary(name string, p Promotion, m Meaning, cuda Spelling, torch, doc string) OpInfo {
	return OpInfo{Name: name, Group: groupBinary, Class: Elementwise, Signatures: signature(operand("x"), operand("y")),
		Promote: p, Meaning: m, CUDA: cuda, Torch: torch, Doc: doc, Cost: 1}
}

var AddOp = def(func() OpInfo {
	i := binary("add", arithmetic,
		Meaning{
			Float:   Kernel[float64]{F2: func(a, b float64) float64 { return a + b }},
			Float32: Kernel[float32]{F2: func(a, b float32) float32 { return a + b }},
			Int:     Kernel[int64]{F2: func(a, b int64) int64 { return a + b }},
			Bool:    Kernel[bool]{F2: func(a, b bool) bool { return a || b }},
			Complex: Kernel[complex128]{F2: func(a, b complex128) complex128 { return a + b }},
		},
		Spelling{F32: "$0 + $1", Int: "$0 + $1", UInt: "$0 + $1", Bool: "$0 || $1", C64: "$0 + $1"}, "torch.add(x, y)",
		"The sum of x and y; of bools, their logical or.")
	i.Commutes, i.Associates = true, true
	i.Scalar = func(t *scalar.Table, a []scalar.ID) scalar.ID { return t.Add(a[0], a[1]) }
	return i
}())
