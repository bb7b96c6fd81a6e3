package sim_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/codegen/sim"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// rewrite replaces each statement, in order of the text and from the outside
// in, by what f makes of it.
func rewrite(k *kir.Kernel, f func(s kir.Statement) kir.Block) {
	var walk func(list kir.Block) kir.Block
	walk = func(list kir.Block) kir.Block {
		var out kir.Block
		for _, s := range list {
			for _, s := range f(s) {
				switch s := s.(type) {
				case *kir.For:
					s.Body = walk(s.Body)
				case *kir.If:
					s.Then, s.Else = walk(s.Then), walk(s.Else)
				}
				out = append(out, s)
			}
		}
		return out
	}
	k.Body = walk(k.Body)
}

// replace rewrites statement number n of the type of S; of all if n is -1.
func replace[S kir.Statement](n int, f func(s S) kir.Block) func(l *launch) {
	return func(l *launch) {
		seen, done := 0, false
		rewrite(l.k, func(s kir.Statement) kir.Block {
			x, ok := s.(S)
			if !ok {
				return kir.Block{s}
			}
			if seen++; n >= 0 && seen != n+1 {
				return kir.Block{s}
			}
			done = true
			return f(x)
		})
		if !done {
			panic("there is no such statement")
		}
	}
}

// drop removes statement number n of the type of S.
func drop[S kir.Statement](n int) func(l *launch) {
	return replace(n, func(S) kir.Block { return nil })
}

// always replaces condition number n by its first side.
func always(n int) func(l *launch) {
	return replace(n, func(s *kir.If) kir.Block { return s.Then })
}

// condition changes condition number n.
func condition(n int, f func(t *scalar.Table, cond scalar.ID) scalar.ID) func(l *launch) {
	return func(l *launch) {
		replace(n, func(s *kir.If) kir.Block {
			s.Cond = f(l.k.Scalars, s.Cond)
			return kir.Block{s}
		})(l)
	}
}

// symbol returns the expression of a symbol by name.
func symbol(k *kir.Kernel, name string) scalar.ID {
	i := slices.IndexFunc(k.Symbols, func(s kir.Symbol) bool { return s.Name == name })
	return k.Symbols[i].Expr
}

func buffer(k *kir.Kernel, name string) *kir.Buffer {
	i := slices.IndexFunc(k.Buffers, func(b kir.Buffer) bool { return b.Name == name })
	return &k.Buffers[i]
}

// guarded puts statement number n of the type of S under a condition.
func guarded[S kir.Statement](n int, cond func(k *kir.Kernel) scalar.ID) func(l *launch) {
	return func(l *launch) {
		replace(n, func(s S) kir.Block { return kir.Block{&kir.If{Cond: cond(l.k), Then: kir.Block{s}}} })(l)
	}
}

func block() kir.Statement { return kir.Barrier{Scope: kir.BlockScope} }

func firstThread(k *kir.Kernel) scalar.ID { return k.Scalars.Eq(symbol(k, "tx"), k.Scalars.Int(0)) }

// mutations break one thing of a good kernel each.
var mutations = []struct {
	name   string
	build  func() launch
	change func(l *launch)
	want   []sim.Kind
}{
	{"elementwise without predicate", elementwise, always(0), []sim.Kind{sim.OutOfBounds}},
	{"elementwise with one element too many", elementwise, func(l *launch) {
		condition(0, func(t *scalar.Table, cond scalar.ID) scalar.ID { return t.Le(t.Args(cond)[0], t.Args(cond)[1]) })(l)
	}, []sim.Kind{sim.OutOfBounds}},
	{"elementwise with one element too few", elementwise, func(l *launch) {
		n := symbol(l.k, "n")
		condition(0, func(t *scalar.Table, cond scalar.ID) scalar.ID { return t.Lt(t.Add(t.Args(cond)[0], t.Int(1)), n) })(l)
	}, []sim.Kind{sim.NotWritten}},
	{"elementwise with a block too few", elementwise, func(l *launch) {
		l.k.Launch.Grid[0] = l.k.Scalars.FloorDiv(symbol(l.k, "n"), l.k.Scalars.Int(128))
	}, []sim.Kind{sim.NotWritten}},
	{"elementwise of an undefined input", elementwise, func(l *launch) { l.arguments[1].Memory.Undefined = true }, []sim.Kind{sim.Uninitialised}},
	{"elementwise with too many threads", elementwise, func(l *launch) { l.k.Launch.Block[0] = l.k.Scalars.Int(2048) }, []sim.Kind{sim.OverLimit}},
	{"elementwise by every block twice", elementwise, func(l *launch) { l.k.Launch.Grid[1] = l.k.Scalars.Int(2) }, []sim.Kind{sim.Duplicate}},
	{"vectorised at less alignment", vectorised, func(l *launch) { buffer(l.k, "x").Align = 8 }, []sim.Kind{sim.Misaligned}},
	{"vectorised without the load", vectorised, drop[kir.Move](0), []sim.Kind{sim.Uninitialised}},
	{"vectorised into a short buffer", vectorised, func(l *launch) { buffer(l.k, "y").Size = l.k.Scalars.Int(510) }, []sim.Kind{sim.OutOfBounds, sim.NotWritten}},
	{"vectorised over the end of the shape", vectorised, func(l *launch) { buffer(l.k, "x").Shape[0] = l.k.Scalars.Int(510) },
		[]sim.Kind{sim.OutOfBounds}},
	{"tree without barrier 0", tree, drop[kir.Barrier](0), []sim.Kind{sim.Race}},
	{"tree without barrier 1", tree, drop[kir.Barrier](1), []sim.Kind{sim.Race}},
	{"tree without barrier 2", tree, drop[kir.Barrier](2), []sim.Kind{sim.Race}},
	{"tree without barrier 3", tree, drop[kir.Barrier](3), []sim.Kind{sim.Race}},
	{"tree without barrier 4", tree, drop[kir.Barrier](4), []sim.Kind{sim.Race}},
	{"tree without barrier 5", tree, drop[kir.Barrier](5), []sim.Kind{sim.Race}},
	{"tree without barrier 6", tree, drop[kir.Barrier](6), []sim.Kind{sim.Race}},
	{"tree with warp barriers where a warp is left", tree, func(l *launch) {
		for range 5 { // the next one is number 2 each time
			replace(2, func(kir.Barrier) kir.Block { return kir.Block{kir.Fence{Scope: kir.BlockScope}} })(l)
		}
		replace(-1, func(kir.Fence) kir.Block { return kir.Block{kir.Barrier{Scope: kir.WarpScope}} })(l)
	}, nil},
	{"tree with a warp barrier where two are left", tree, replace(1, func(kir.Barrier) kir.Block {
		return kir.Block{kir.Barrier{Scope: kir.WarpScope}}
	}), []sim.Kind{sim.Race}},
	{"tree without initialisation", tree, drop[kir.Assign](0), []sim.Kind{sim.Uninitialised}},
	{"tree with a barrier under a condition", tree, guarded[kir.Barrier](3, firstThread), []sim.Kind{sim.DivergentBarrier}},
	{"tree with a warp barrier under a condition", tree, func(l *launch) {
		replace(0, func(s kir.Barrier) kir.Block {
			return kir.Block{s, &kir.If{Cond: firstThread(l.k), Then: kir.Block{kir.Barrier{Scope: kir.WarpScope}}}}
		})(l)
	}, []sim.Kind{sim.DivergentBarrier}},
	{"tree in too little shared memory", tree, func(l *launch) { l.k.Launch.Shared = l.k.Scalars.Int(508) }, []sim.Kind{sim.OutOfBounds}},
	{"warp without initialisation", warp, drop[kir.Assign](0), []sim.Kind{sim.Uninitialised}},
	{"warp with a shuffle under a condition", warp, guarded[kir.Assign](1, func(k *kir.Kernel) scalar.ID {
		return k.Scalars.Lt(symbol(k, "tx"), k.Scalars.Int(40))
	}), []sim.Kind{sim.DivergentBarrier, sim.InactiveLane}},
	{"warp under a condition on whole warps", warp, guarded[kir.Assign](1, func(k *kir.Kernel) scalar.ID {
		return k.Scalars.Lt(symbol(k, "tx"), k.Scalars.Int(64))
	}), nil},
	{"rows without the first barrier", rows, drop[kir.Barrier](0), []sim.Kind{sim.Race}},
	{"rows without the second barrier", rows, drop[kir.Barrier](1), []sim.Kind{sim.Race}},
	{"ticket without the first fence", ticket, drop[kir.Fence](0), []sim.Kind{sim.Race}},
	{"ticket without the second fence", ticket, drop[kir.Fence](1), []sim.Kind{sim.Race}},
	{"ticket with a fence of the block", ticket, replace(0, func(kir.Fence) kir.Block { return kir.Block{kir.Fence{Scope: kir.BlockScope}} }), []sim.Kind{sim.Race}},
	{"ticket without publishing the flag", ticket, drop[kir.Barrier](1), []sim.Kind{sim.Race}},
	{"ticket without resetting the counter", ticket, func(l *launch) { drop[kir.Assign](assigns(l.k) - 1)(l) }, []sim.Kind{sim.NotZero}},
	{"ticket in a small workspace", ticket, func(l *launch) {
		b := buffer(l.k, "work")
		b.Size, b.Shape[0] = l.k.Scalars.Int(4), l.k.Scalars.Int(4)
	}, []sim.Kind{sim.OutOfBounds}},
	{"ticket where every block is the last", ticket, func(l *launch) {
		replace(0, func(s kir.Let) kir.Block {
			l.k.Values = append(l.k.Values, kir.Value{Kind: kir.Constant, DType: dtype.Bool, Const: scalar.Value{Type: dtype.Bool, I: 1}})
			s.Value = kir.ValueID(len(l.k.Values) - 1)
			return kir.Block{s}
		})(l)
	}, []sim.Kind{sim.Race, sim.Uninitialised}},
	{"allreduce with a barrier of the block", allreduce, replace(1, func(kir.Barrier) kir.Block { return kir.Block{block()} }), []sim.Kind{sim.Race, sim.Uninitialised}},
	{"allreduce where a block does not come", allreduce, func(l *launch) {
		n := slices.IndexFunc(l.k.Body, func(s kir.Statement) bool {
			x, ok := s.(kir.Barrier)
			return ok && x.Scope == kir.GridScope
		})
		come := &kir.If{Cond: l.k.Scalars.Lt(symbol(l.k, "bx"), l.k.Scalars.Int(3)), Then: l.k.Body[n:]}
		l.k.Body = append(slices.Clone(l.k.Body[:n]), come)
	}, []sim.Kind{sim.Deadlock}},
	{"allreduce where one thread of a block waits for others", allreduce, guarded[kir.Barrier](1, firstThread), []sim.Kind{sim.DivergentBarrier}},
	{"allreduce where blocks wait at several words", allreduce, func(l *launch) {
		b := buffer(l.k, "word")
		b.Size, b.Shape[0] = l.k.Scalars.Int(4), l.k.Scalars.Int(4)
		l.arguments[3] = pointer(zeros(32))
		replace(1, func(s kir.Barrier) kir.Block {
			s.Semaphore.Index, s.Semaphore.Coords = symbol(l.k, "bx"), []scalar.ID{symbol(l.k, "bx")}
			return kir.Block{s}
		})(l)
	}, []sim.Kind{sim.Deadlock}},
	{"allreduce in a launch that is not cooperative", allreduce, func(l *launch) { l.k.Launch.Cooperative = false }, []sim.Kind{sim.Deadlock}},
	{"allreduce without the partial sums", allreduce, func(l *launch) { drop[*kir.If](2)(l) }, []sim.Kind{sim.Uninitialised}},
	{"cluster without the first barrier", good["cluster"], drop[kir.Barrier](0), []sim.Kind{sim.NoPeer, sim.Uninitialised}},
	{"cluster whose blocks do not tell that they have started", good["starts"], drop[kir.ClusterStart](0), []sim.Kind{sim.Deadlock}},
	{"cluster whose blocks do not wait for starts", good["starts"], drop[kir.ClusterStart](1), []sim.Kind{sim.NoPeer, sim.Deadlock}},
	{"cluster with a barrier between a start and the wait", good["starts"], replace(1, func(s kir.ClusterStart) kir.Block {
		return kir.Block{kir.Barrier{Scope: kir.ClusterScope}, s}
	}), []sim.Kind{sim.Deadlock}},
	{"cluster without the barriers of the rounds", good["cluster"], drop[kir.Barrier](1), []sim.Kind{sim.NoPeer, sim.Race, sim.Uninitialised}},
	{"cluster with barriers of the block", good["cluster"], replace(1, func(kir.Barrier) kir.Block { return kir.Block{block()} }),
		[]sim.Kind{sim.NoPeer, sim.Race, sim.Uninitialised}},
	{"cluster with slots that are used again too early", func() launch { return clusterSum(1) }, nil, []sim.Kind{sim.Race}},
	{"cluster of which the grid is no multiple", good["cluster"], func(l *launch) { l.k.Launch.Grid[0] = l.k.Scalars.Int(6) }, []sim.Kind{sim.OverLimit}},
	{"cluster where a block does not come", good["cluster"], func(l *launch) {
		come := l.k.Scalars.Lt(symbol(l.k, "rank"), l.k.Scalars.Int(3))
		l.k.Body = append(slices.Clone(l.k.Body[:3]), &kir.If{Cond: come, Then: l.k.Body[3:]})
	}, []sim.Kind{sim.Deadlock}},
	{"cluster where a block sends to one of none", good["cluster"], func(l *launch) {
		replace(0, func(s kir.Send) kir.Block {
			s.Rank = l.k.Scalars.Add(s.Rank, l.k.Scalars.Int(1))
			return kir.Block{s}
		})(l)
	}, []sim.Kind{sim.OutOfBounds, sim.Uninitialised}},
	{"transpose without barrier", func() launch { return transpose(33) }, drop[kir.Barrier](0), []sim.Kind{sim.Race}},
	{"transpose without predicate", func() launch { return transpose(33) }, always(1), []sim.Kind{sim.OutOfBounds}},
	{"pipeline reused after nothing", func() launch { return pipeline() }, nil, []sim.Kind{sim.AsyncReuse}},
	{"pipeline reused after a barrier", func() launch { return pipeline(block()) }, nil, []sim.Kind{sim.AsyncReuse}},
	{"pipeline reused after a wait", func() launch { return pipeline(kir.AsyncWait{}) }, nil, []sim.Kind{sim.AsyncReuse}},
	{"pipeline reused after a barrier, then a wait", func() launch { return pipeline(block(), kir.AsyncWait{}) }, nil, []sim.Kind{sim.AsyncReuse}},
	{"pipeline reused after a short wait", func() launch { return pipeline(kir.AsyncWait{Pending: 1}, block()) }, nil, []sim.Kind{sim.AsyncReuse}},
	{"pipeline without the wait", good["pipeline"], drop[kir.AsyncWait](0), []sim.Kind{sim.AsyncUse, sim.AsyncReuse}},
	{"pipeline with a short wait", good["pipeline"], replace(0, func(kir.AsyncWait) kir.Block { return kir.Block{kir.AsyncWait{Pending: 2}} }), []sim.Kind{sim.AsyncUse}},
	{"pipeline without the barrier", good["pipeline"], drop[kir.Barrier](0), []sim.Kind{sim.AsyncUse, sim.Race}},
	{"pipeline without a commit", good["pipeline"], drop[kir.AsyncCommit](0), []sim.Kind{sim.AsyncUse, sim.AsyncReuse}},
	{"pipeline into the wrong slot", good["pipeline"], func(l *launch) {
		replace(-1, func(s kir.AsyncCopy) kir.Block {
			t := l.k.Scalars
			s.Dst.Coords = slices.Clone(s.Dst.Coords)
			s.Dst.Coords[0] = t.Mod(t.Add(s.Src.Coords[0], t.Int(1)), t.Int(3))
			s.Dst.Index = t.Add(t.Mul(s.Dst.Coords[0], t.Int(256)), s.Dst.Coords[1])
			return kir.Block{s}
		})(l)
	}, []sim.Kind{sim.AsyncUse}},
	{"double buffer of one slot", func() launch { return doubleBuffer(1) }, nil, []sim.Kind{sim.Race}},
	{"double buffer without barrier", good["doubleBuffer"], drop[kir.Barrier](0), []sim.Kind{sim.Race}},
	{"gather without predicate", good["gather"], always(0), []sim.Kind{sim.OutOfBounds}},
	{"gather by undefined positions", good["gather"], func(l *launch) { l.arguments[1].Memory.Undefined = true }, []sim.Kind{sim.Uninitialised}},
	{"gather without the other value", good["gather"], drop[kir.Assign](0), []sim.Kind{sim.Uninitialised}},
	{"gather by positions said to be in range", func() launch { return gather(scalar.Range(0, 69)) }, nil, []sim.Kind{sim.WrongFacts, sim.OutOfBounds}},
}

// TestMutations breaks one thing of a good kernel at a time. Each gives its
// own kinds of findings, whatever the order of blocks and warps.
func TestMutations(t *testing.T) {
	for _, test := range mutations {
		t.Run(test.name, func(t *testing.T) {
			for _, options := range []sim.Options{{}, {Order: sim.Reverse}, {Order: sim.Random, Seed: 5}} {
				l := test.build()
				if test.change != nil {
					test.change(&l)
				}
				options.Outputs = l.outputs
				report, err := sim.Run(l.k, l.arguments, options)
				require.NoError(t, err)
				got := kinds(report)
				if options.Order == sim.Random && test.name == "ticket where every block is the last" { // blocks take turns
					got = slices.DeleteFunc(got, func(k sim.Kind) bool { return k == sim.Duplicate })
				}
				require.ElementsMatch(t, test.want, got, "%v", report.Err())
			}
		})
	}
}

// TestEveryKindIsProduced: no check of the simulator goes untested.
func TestEveryKindIsProduced(t *testing.T) {
	produced := map[sim.Kind]bool{}
	for _, m := range mutations {
		for _, k := range m.want {
			produced[k] = true
		}
	}
	for _, m := range mistakes {
		for _, k := range m.want {
			produced[k] = true
		}
	}
	for k := range sim.NumKinds {
		require.True(t, produced[k], "nothing produces %v", k)
	}
}

func assigns(k *kir.Kernel) int {
	n := 0
	rewrite(k, func(s kir.Statement) kir.Block {
		if _, ok := s.(kir.Assign); ok {
			n++
		}
		return kir.Block{s}
	})
	return n
}

func kinds(r *sim.Report) []sim.Kind {
	var out []sim.Kind
	for _, f := range r.Findings {
		if !slices.Contains(out, f.Kind) {
			out = append(out, f.Kind)
		}
	}
	return out
}
