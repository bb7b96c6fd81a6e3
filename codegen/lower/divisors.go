package lower

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// divisors is a pass. It lets the host pass what divides by the numbers of the
// launch that indices of threads and loops are divided by. A number that is known
// now is left to the compiler, and a division of numbers of the launch is done
// once.
func (l *lowering) divisors() error {
	k := l.b.Kernel()
	if k.Index != dtype.Int32 {
		return nil
	}
	param := map[scalar.ID]bool{}
	isOfLaunch := func(id scalar.ID) bool {
		of, ok := param[id]
		if !ok {
			of = true
			l.t.Symbols(id, func(s scalar.ID) { of = of && k.Symbols[l.t.Tag(s).Val].Kind == kir.Parameter })
			param[id] = of
		}
		return of
	}
	seen, known := map[scalar.ID]bool{}, map[scalar.ID]bool{}
	var visit func(id scalar.ID)
	visit = func(id scalar.ID) {
		if seen[id] {
			return
		}
		seen[id] = true
		args := l.t.Args(id)
		for _, a := range args {
			visit(a)
		}
		if op := l.t.Op(id); op != scalar.FloorDiv && op != scalar.Mod || l.t.Type(id) != dtype.Index {
			return
		}
		_, isConst := l.t.ConstInt(args[1])
		if !isConst && !known[args[1]] && isOfLaunch(args[1]) && !isOfLaunch(args[0]) && l.t.Facts(args[0]).Lo >= 0 && l.t.Facts(args[1]).Lo >= 0 {
			known[args[1]] = true
			l.b.Divisor(l.name("by"), args[1])
		}
	}
	k.Body.Walk(func(s kir.Statement) { statementExprs(k, s, visit) })
	return nil
}
