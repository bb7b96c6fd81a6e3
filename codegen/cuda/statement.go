package cuda

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"nvfuser_go/codegen/kir"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

// kernel writes the parameter structure and the function.
func (p *printer) kernel() {
	p.parameters()
	parameter := ""
	if s := p.structure(); s != "" {
		parameter = "const __grid_constant__ " + s + " p"
	}
	p.line("extern \"C\" __global__ void %s%s%s(%s) {", p.cluster(), p.launchBounds(), p.name, parameter)
	p.depth++
	p.launchOrder()
	p.positions()
	p.block(p.k.Body)
	p.depth--
	p.line("}")
	p.line("")
	p.dropNames()
}

// A namedLine is where the text defines the name of an expression.
type namedLine struct {
	name       string
	start, end int
}

var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// dropNames removes the definitions of names that are read nowhere, such as that
// of a divisor by which an argument divides.
func (p *printer) dropNames() {
	all, uses := p.text.String(), map[string]int{}
	for _, w := range word.FindAllString(all, -1) {
		uses[w]++
	}
	end, kept := len(all), []string{}
	for _, x := range slices.Backward(p.definitions) {
		if line := all[x.start:x.end]; uses[x.name] == 1 {
			for _, w := range word.FindAllString(line, -1) {
				uses[w]--
			}
			kept = append(kept, all[x.end:end])
			end = x.start
		}
	}
	if len(kept) == 0 {
		return
	}
	kept = append(kept, all[:end])
	slices.Reverse(kept)
	p.text.Reset()
	p.text.WriteString(strings.Join(kept, ""))
}

func (p *printer) cluster() string {
	c := p.k.Launch.Cluster
	blocks := max(c[0], 1) * max(c[1], 1) * max(c[2], 1)
	if blocks == 1 {
		return ""
	}
	if p.o.Arch < 90 {
		p.unsupported("clusters before compute capability 9.0")
	}
	return fmt.Sprintf("__cluster_dims__(%d, %d, %d) ", max(c[0], 1), max(c[1], 1), max(c[2], 1))
}

// launchOrder waits for kernels before, and lets the next one start. It does so in this
// order, so that a kernel that starts early finds no other kernel running than the one
// that let it start, which has read all that the kernels before it wrote.
func (p *printer) launchOrder() {
	if (p.o.Follows || p.o.Leads) && p.o.Arch < 90 {
		p.unsupported("launches that overlap before compute capability 9.0")
	}
	if p.o.Follows {
		p.need("waitForKernels")
		p.line("waitForKernels();")
	}
	if p.o.Leads {
		p.need("startNextKernel")
		p.line("startNextKernel();")
	}
}

// isConstant reports whether loads of b may take the path of what no thread writes from
// the start of the kernel to its end. A kernel that waits for others starts before they
// have written, and a compiler may move such loads to before the wait.
func (p *printer) isConstant(b *kir.Buffer) bool {
	return b.Space == kir.Global && b.ReadOnly && !p.o.Follows
}

// launchBounds tells the number of threads if it is constant, else the most
// that there can be.
func (p *printer) launchBounds() string {
	threads := int64(1)
	for _, id := range p.k.Launch.Block {
		threads = min(threads*max(min(p.k.Scalars.Facts(id).Hi, 1024), 1), 1024)
	}
	blocks := p.o.MinBlocks
	if blocks <= 0 {
		blocks = p.k.Launch.Resident
	}
	if blocks > 0 {
		return fmt.Sprintf("__launch_bounds__(%d, %d) ", threads, blocks)
	}
	return fmt.Sprintf("__launch_bounds__(%d) ", threads)
}

// positions declares the thread and block indices that the kernel uses.
func (p *printer) positions() {
	used := p.usedSymbols()
	for i, s := range p.k.Symbols {
		if !used[i] {
			continue
		}
		axis := "xyz"[s.Dim : s.Dim+1]
		switch s.Kind {
		case kir.ThreadIdx:
			p.line("const %s %s = threadIdx.%s;", p.indexType(), p.symbols[i], axis)
		case kir.BlockIdx:
			p.line("const %s %s = blockIdx.%s;", p.indexType(), p.symbols[i], axis)
		case kir.ClusterIdx:
			p.need("clusterIdx")
			p.line("const %s %s = clusterIdx%s();", p.indexType(), p.symbols[i], strings.ToUpper(axis))
		}
	}
}

// usedSymbols finds the symbols that the body reads.
func (p *printer) usedSymbols() []bool {
	used := make([]bool, len(p.k.Symbols))
	seen := map[scalar.ID]bool{}
	expr := func(ids ...scalar.ID) {
		for _, id := range ids {
			if id == scalar.None || seen[id] {
				continue
			}
			seen[id] = true
			p.k.Scalars.Symbols(id, func(s scalar.ID) { used[p.k.Scalars.Tag(s).Val] = true })
		}
	}
	for i := range p.k.Values {
		switch v := &p.k.Values[i]; v.Kind {
		case kir.IndexValue, kir.Random:
			expr(v.Index)
		case kir.Load:
			expr(v.Access.Index)
		case kir.Shuffle:
			if v.Mode == kir.ShuffleAt {
				expr(v.Index)
			}
		}
	}
	for i := range p.k.Buffers {
		if b := &p.k.Buffers[i]; b.Space == kir.Shared {
			expr(b.Offset)
		}
	}
	var walk func(b kir.Block)
	walk = func(b kir.Block) {
		for _, s := range b {
			switch s := s.(type) {
			case kir.Assign:
				expr(s.Dst.Index)
			case kir.Send:
				expr(s.Dst.Index, s.Rank)
			case kir.Move:
				expr(s.Dst.Index, s.Src.Index)
				if s.Cache == kir.CacheEvictLastIf {
					expr(s.Last)
				}
				if s.Guarded {
					expr(s.Guard)
				}
			case kir.AsyncCopy:
				expr(s.Dst.Index, s.Src.Index, s.Guard)
				if s.Cache == kir.CacheEvictLastIf {
					expr(s.Last)
				}
			case kir.Barrier:
				if s.Scope == kir.GridScope {
					expr(s.Semaphore.Index)
				}
			case kir.AtomicAdd:
				expr(s.Dst.Index)
			case kir.Hoist:
				expr(s.Expr)
			case *kir.For:
				expr(s.Start, s.Stop, s.Step)
				walk(s.Body)
			case *kir.If:
				expr(s.Cond)
				walk(s.Then)
				walk(s.Else)
			}
		}
	}
	walk(p.k.Body)
	return used
}

// block writes statements; names of expressions end with it.
func (p *printer) block(b kir.Block) {
	outside := len(p.inScope)
	for _, s := range b {
		p.statement(s)
	}
	p.forget(outside)
}

func (p *printer) statement(s kir.Statement) {
	switch s := s.(type) {
	case kir.Declare:
		p.declare(s.Buffer)
	case kir.Assign:
		p.assign(&s)
	case kir.Send:
		p.send(&s)
	case kir.Move:
		p.move(&s)
	case kir.AsyncCopy:
		p.asyncCopy(&s)
	case kir.Opaque:
		if !p.scalars[s.Buffer] {
			p.need("opaque")
			p.line("opaque(%s);", p.buffers[s.Buffer])
		}
	case kir.UnderWay:
		p.need("underWay")
		p.line("underWay(%s);", p.buffers[s.Buffer])
	case kir.AsyncCommit:
		p.need("commitAsync")
		p.line("commitAsync();")
	case kir.AsyncWait:
		p.need("waitAsync")
		p.line("waitAsync<%d>();", s.Pending)
	case kir.Barrier:
		p.barrier(&s)
	case kir.Expect:
		p.need("expectArrivals")
		p.line("expectArrivals(%s, %d);", p.buffers[s.Arrivals], s.Bytes)
	case kir.Arrived:
		p.need("waitForArrivals")
		p.line("waitForArrivals(%s);", p.buffers[s.Arrivals])
	case kir.ClusterStart:
		name := "tellStart"
		if s.Wait {
			name = "waitForStarts"
		}
		p.need(name)
		p.line("%s();", name)
	case kir.Fence:
		p.fence(s.Scope)
	case kir.AtomicAdd:
		p.atomicAdd(&s)
	case kir.Let:
		p.let(&s)
	case kir.Hoist:
		name, start := p.symbols[s.Symbol], p.text.Len()
		p.line("const %s %s = %s;", p.exprType(s.Expr), name, p.index(s.Expr).code)
		p.definitions = append(p.definitions, namedLine{name, start, p.text.Len()})
		p.giveName(s.Expr, name)
	case *kir.For:
		p.loop(s)
	case *kir.If:
		p.condition(s)
	default:
		p.unsupported("a statement of type %T", s)
	}
}

// exprType is the C++ type of an index expression.
func (p *printer) exprType(id scalar.ID) string {
	if p.k.Scalars.Type(id).IsBool() {
		return "bool"
	}
	return p.numberType(id)
}

func (p *printer) declare(id kir.BufferID) {
	b := &p.k.Buffers[id]
	stored, name := p.stored(b.DType), p.buffers[id]
	if p.asBool[id] {
		stored = "bool"
	}
	if b.Space == kir.Shared {
		p.need("blockMemory")
		address := binary("+", atom("blockMemory()"), p.index(b.Offset))
		if n, ok := p.k.Scalars.ConstInt(b.Offset); ok && n == 0 {
			address = atom("blockMemory()")
		}
		p.line("%s* const %s = (%s*)%s;", stored, name, stored, address.within(levelUnary))
		return
	}
	if p.scalars[id] {
		p.line("%s %s%s;", stored, name, p.initial)
		return
	}
	n, ok := p.k.Scalars.ConstInt(b.Size)
	if !ok {
		p.unsupported("the Local buffer %s, whose size is not constant", b.Name)
	}
	align := ""
	if b.Align > b.DType.Size() {
		align = fmt.Sprintf("alignas(%d) ", b.Align)
	}
	p.line("%s%s %s[%d]%s;", align, stored, name, max(n, 1), p.initial)
}

func (p *printer) assign(s *kir.Assign) {
	p.begin(s.Value)
	var x text
	if p.asBool[s.Dst.Buffer] {
		x = p.value(s.Value)
	} else {
		x = p.storedValue(s.Value)
	}
	p.line("%s = %s;", p.element(&s.Dst).code, x.code)
}

func (p *printer) send(s *kir.Send) {
	p.begin(s.Value)
	if s.Counted {
		p.need("sendCounted")
		p.line("sendCounted(%s, %s, %s, %s);", p.address(&s.Dst), p.index(s.Rank).code, p.storedValue(s.Value).code, p.buffers[s.Arrivals])
		return
	}
	p.need("ofPeer")
	p.line("*ofPeer(%s, %s) = %s;", p.address(&s.Dst), p.index(s.Rank).code, p.storedValue(s.Value).code)
}

// address returns a pointer to the element of an access.
func (p *printer) address(a *kir.Access) string { return "&" + p.element(a).code }

// bytes returns how much an access moves.
func (p *printer) bytes(a *kir.Access) int { return a.Width * p.k.Buffers[a.Buffer].DType.Size() }

func (p *printer) move(s *kir.Move) { p.moveFrom(s, text{code: p.address(&s.Src), level: levelUnary}) }

// moveFrom prints s, which is from what address points to.
func (p *printer) moveFrom(s *kir.Move, address text) {
	function := "move"
	from, to := &p.k.Buffers[s.Src.Buffer], &p.k.Buffers[s.Dst.Buffer]
	streaming := s.Cache == kir.CacheStreaming
	policy := policies[s.Cache]
	switch {
	case s.Unaligned && s.Cache == kir.CacheEvictLast:
		function = "moveUnalignedEvictLast"
	case s.Unaligned && p.isConstant(from):
		function = "moveReadOnlyUnaligned"
	case s.Unaligned:
		function = "moveUnaligned"
	case s.Guarded && p.isConstant(from):
		function = "moveReadOnlyWhere" + policy
	case s.Guarded:
		function = "moveWhere"
	case s.Cache == kir.CacheEvictLast && from.Space == kir.Global:
		function = "moveEvictLast"
	case policy != "" && p.isConstant(from):
		function = "moveReadOnly" + policy
	case policy != "" && from.Space == kir.Global:
		function = "move" + policy
	case policy != "" && to.Space == kir.Global:
		function = "store" + policy
	case p.isConstant(from) && streaming:
		function = "moveReadOnlyStreaming"
	case p.isConstant(from):
		function = "moveReadOnly"
	case from.Space == kir.Global && streaming && !p.o.Follows: // it may be moved as well
		function = "moveStreaming"
	case to.Space == kir.Global && streaming:
		function = "storeStreaming"
	}
	if s.Src.Step > 1 {
		p.gather(s)
		return
	}
	p.need(function)
	condition := p.last(s.Cache, s.Last)
	if s.Guarded {
		condition = ", " + p.index(s.Guard).code
	}
	p.line("%s<%d>(%s, %s%s);", function, p.bytes(&s.Dst), p.address(&s.Dst), address.code, condition)
}

// gather prints a move of elements that are not next to each other.
func (p *printer) gather(s *kir.Move) {
	b := &p.k.Buffers[s.Src.Buffer]
	g, ok := kir.GatheredBy(b, s.Src.Width, s.Src.Step)
	if !ok {
		p.unsupported("elements of %s that are not next to each other", b.Name)
	}
	function := "gather"
	if p.isConstant(b) {
		function = "gatherReadOnly"
	}
	p.need(function)
	p.line("%s<%d, %d, %d, %d, %d>(%s, %s);", function, b.DType.Size(), s.Src.Width, s.Src.Step, g.Past, g.Vector, p.address(&s.Dst), p.address(&s.Src))
}

// policies are the ends of the names of functions that copy by a policy of the second cache.
var policies = map[kir.CacheHint]string{kir.CacheEvictFirst: "EvictFirst", kir.CacheEvictLast: "EvictLast", kir.CacheEvictLastIf: "EvictLastIf"}

// last returns the argument that the policy of a copy has, and the comma before it.
func (p *printer) last(cache kir.CacheHint, cond scalar.ID) string {
	if cache == kir.CacheEvictLastIf {
		return ", " + p.index(cond).code
	}
	return ""
}

func (p *printer) asyncCopy(s *kir.AsyncCopy) {
	function, guard := "copyAsync"+policies[s.Cache], ""
	if s.Guard != scalar.None {
		guard = ", " + p.index(s.Guard).code
		p.need(function + ".guarded")
	} else {
		p.need(function)
	}
	p.line("%s<%d>(%s, %s%s%s);", function, p.bytes(&s.Dst), p.address(&s.Dst), p.address(&s.Src), guard, p.last(s.Cache, s.Last))
}

func (p *printer) barrier(s *kir.Barrier) {
	switch s.Scope {
	case kir.WarpScope:
		p.line("__syncwarp();")
	case kir.GroupScope:
		p.need("groupBarrier")
		p.line("groupBarrier();")
	case kir.BlockScope:
		p.line("__syncthreads();")
	case kir.ClusterScope:
		if p.o.Arch < 90 {
			p.unsupported("clusters before compute capability 9.0")
		}
		p.need("clusterBarrier")
		p.line("clusterBarrier();")
	case kir.GridScope:
		p.need("gridBarrier")
		p.line("gridBarrier(%s);", p.address(&s.Semaphore))
	}
}

func (p *printer) fence(scope kir.Scope) {
	switch scope {
	case kir.WarpScope, kir.GroupScope, kir.BlockScope:
		p.line("__threadfence_block();")
	case kir.ClusterScope:
		p.need("clusterFence")
		p.line("clusterFence();")
	case kir.GridScope:
		p.line("__threadfence();")
	}
}

func (p *printer) atomicAdd(s *kir.AtomicAdd) {
	switch t := p.k.Buffers[s.Dst.Buffer].DType; t {
	case dtype.Int, dtype.Index:
		p.need("atomicAdd.signed")
	case dtype.Half, dtype.BFloat16:
		p.need("atomicAdd." + cppTypes[t].stored)
	case dtype.Int32, dtype.UInt64, dtype.Float, dtype.Double:
	default:
		p.unsupported("an atomic addition to elements of %v", t)
	}
	p.begin(s.Value)
	call := fmt.Sprintf("atomicAdd(%s, %s)", p.address(&s.Dst), p.storedValue(s.Value).code)
	if s.Old != kir.NoSymbol {
		p.wideSymbols[s.Old] = p.k.Buffers[s.Dst.Buffer].DType != dtype.Int32
		p.line("const %s %s = %s;", p.exprType(p.k.Symbols[s.Old].Expr), p.symbols[s.Old], call)
		return
	}
	p.line("%s;", call)
}

func (p *printer) let(s *kir.Let) {
	v := &p.k.Values[s.Value]
	if v.Kind == kir.IndexValue && !p.wide(v.Index) {
		p.line("const %s %s = %s;", p.exprType(p.k.Symbols[s.Symbol].Expr), p.symbols[s.Symbol], p.index(v.Index).code)
		return
	}
	p.begin(s.Value)
	x := p.value(s.Value)
	if t := v.DType; !t.IsBool() && t != dtype.Int32 {
		if p.k.Index == dtype.Int32 { // what it is used for fits, and so does it where it is used
			x = cast("int", x)
		} else {
			p.wideSymbols[s.Symbol] = true
		}
	}
	p.line("const %s %s = %s;", p.exprType(p.k.Symbols[s.Symbol].Expr), p.symbols[s.Symbol], x.code)
}

func (p *printer) loop(s *kir.For) {
	switch s.Unroll {
	case kir.UnrollFull:
		p.unrolled[s.Symbol] = true
		p.line("#pragma unroll")
	case kir.UnrollNone:
		p.line("#pragma unroll 1")
	}
	i := p.symbols[s.Symbol]
	p.wideSymbols[s.Symbol] = p.wide(s.Start, s.Stop, s.Step)
	step := fmt.Sprintf("%s += %s", i, p.index(s.Step).code)
	if n, ok := p.k.Scalars.ConstInt(s.Step); ok && n == 1 {
		step = "++" + i
	}
	stop := binary("<", atom("%s", i), p.index(s.Stop))
	p.line("for (%s %s = %s; %s; %s) {", p.exprType(p.k.Symbols[s.Symbol].Expr), i, p.index(s.Start).code, stop.code, step)
	p.inside(s.Body)
	p.line("}")
}

func (p *printer) condition(s *kir.If) {
	if m, address, ok := p.oneOf(s); ok {
		p.moveFrom(&m, address)
		return
	}
	if len(s.Then) > 0 || len(s.Else) == 0 {
		p.line("if (%s) {", p.index(s.Cond).code)
		p.inside(s.Then)
		if len(s.Else) > 0 {
			p.line("} else {")
			p.insideInstead(s)
		}
	} else {
		p.line("if (!%s) {", p.index(s.Cond).within(levelUnary))
		p.inside(s.Else)
	}
	p.line("}")
}

// oneOf returns the one load from global memory that s is, if its sides load the same registers from two
// places, and where it is from. As loads under two conditions the second waits for the first, which writes the
// same registers.
func (p *printer) oneOf(s *kir.If) (m kir.Move, address text, ok bool) {
	m, then, ok := p.side(s.Then)
	if !ok {
		return m, then, false
	}
	n, other, ok := p.side(s.Else)
	if from, is := &p.k.Buffers[m.Src.Buffer], &p.k.Buffers[n.Src.Buffer]; !ok || from.DType != is.DType || p.isConstant(from) != p.isConstant(is) {
		return m, then, false
	}
	if m.Dst.Buffer != n.Dst.Buffer || m.Dst.Index != n.Dst.Index || m.Dst.Width != n.Dst.Width || m.Cache != n.Cache || m.Last != n.Last {
		return m, then, false
	}
	address = text{code: p.index(s.Cond).within(levelTernary+1) + " ? " + then.within(levelTernary+1) + " : " + other.within(levelTernary), level: levelTernary}
	return m, address, true
}

// side returns the one load from global memory that a side of a choice is.
func (p *printer) side(b kir.Block) (m kir.Move, address text, ok bool) {
	if len(b) != 1 {
		return m, address, false
	}
	switch s := b[0].(type) {
	case *kir.If:
		return p.oneOf(s)
	case kir.Move:
		isLoad := p.k.Buffers[s.Src.Buffer].Space == kir.Global && !s.Guarded && !s.Unaligned && s.Src.Step <= 1
		if isLoad {
			address = text{code: p.address(&s.Src), level: levelUnary}
		}
		return s, address, isLoad
	}
	return m, address, false
}

// insideInstead prints what is done if the condition of s does not hold. Where elements
// are loaded one by one as a vector is not whole, ptxas 13 made of the load of one the
// load of the vector, which the other branch has at the same address: memcheck saw 16
// bytes read where the memory had 4. So each is loaded apart.
func (p *printer) insideInstead(s *kir.If) {
	if movesVectors(s.Then) {
		p.instead++
		defer func() { p.instead-- }()
	}
	p.inside(s.Else)
}

// movesVectors reports whether some statement of b moves several elements at once.
func movesVectors(b kir.Block) bool {
	found := false
	b.Walk(func(s kir.Statement) {
		m, isMove := s.(kir.Move)
		found = found || isMove && m.Src.Width > 1
	})
	return found
}

func (p *printer) inside(b kir.Block) {
	p.depth++
	p.block(b)
	p.depth--
}
