// Package core is the mathematics of a fusion: what a program of tensor
// operations means, apart from how it is cut up, scheduled or compiled.
//
// # Data flow
//
//	records -> Fusion -> concretize(shapes) -> passes -> segments -> Scheduled -> kir -> CUDA
//	   \_________core_________/
//
// A caller's call, `sum(x, dims=[1])`, arrives as [Given] arguments. The op's
// row binds them to its parameters ([Bind]), which gives normalised [Arg]
// values: dims are non-negative, shapes are scalar expressions, numbers are
// scalar constants. The row may rewrite the call into others ([OpInfo.Expand]:
// promotion, implicit broadcasts, keepdim, the composite ops); what is left is
// appended as an [Expr] whose results the row infers ([OpInfo.Infer]).
//
// # Central type
//
// [Fusion] owns append-only tables of values, expressions, axes and transforms,
// addressed by dense ids. An id is never reused, so a copy ([Fusion.Clone]) is a
// copy of the tables in which every id keeps its meaning. Tensors are defined by
// expressions; scalars are not: a scalar value wraps an expression of package
// scalar, where equal means ==.
//
// # Invariants
//
//   - An Expr is immutable, its Args are one per parameter of its op's row.
//   - Operands of an elementwise expression have its compute type already and
//     one rank; implicit promotion and broadcasting are expressions of their own.
//   - After [Fusion.Freeze] nothing changes; whoever wants a change takes a Clone.
//   - Arithmetic on scalars of dtype Index, which sizes are, does not wrap: a size
//     that does not fit in 64 bits is an error where it is bound, by name. That of
//     other integers, and that of the elements of tensors, wraps.
//   - What must hold of sizes known only at run time is in [Expr.Requires]: data,
//     checked by [Fusion.Bind], never rediscovered by who runs the fusion.
//   - The text form ([Fusion.String]) is canonical: it does not depend on ids, and
//     parses back to a fusion with the same text. It is the dump, the golden
//     file, the hash input and the reproducer.
//
// [Fusion.Verify] lists what later stages rely on and checks it.
//
// # Meaning
//
// [Fusion.Eval] defines it: slow, obvious, in float64 (int64, complex128) with
// one rounding at the dtype of each result. Everything else is compared with it.
//
// # The op table
//
// One [OpInfo] a row; a package-level variable declares and registers at once.
// Nothing outside the row files mentions an operation by name unless it treats
// it specially. Reading order: op.go (the row), arg.go (parameters), fusion.go,
// domain.go, infer.go, then the row files ops_*.go, then eval.go and text.go.
//
// core does not know about files, threads, devices, Python or C.
package core
