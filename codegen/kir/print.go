package kir

import (
	"fmt"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
)

// String returns the kernel as pseudocode, for golden files and reports: an
// access shows the coordinates, not the element offset. It depends on nothing
// but the kernel, and does not parse back.
func (k *Kernel) String() string {
	p := printer{k: k}
	p.line("kernel %s, index %s", k.Name, k.Index.Text())
	p.line("grid %s, block %s, cluster %v, shared %s%s", p.triple(k.Launch.Grid), p.triple(k.Launch.Block), k.Launch.Cluster,
		p.expr(k.Launch.Shared), flag(k.Launch.Cooperative, ", cooperative")+flag(k.Launch.Resident > 0, fmt.Sprintf(", %d resident", k.Launch.Resident)))
	for _, a := range k.Arguments {
		p.line("%s", p.argument(&a))
	}
	p.block(k.Body)
	return p.text.String()
}

// Text returns a statement on one line; of a loop or condition, its head.
func (k *Kernel) Text(s Statement) string {
	p := printer{k: k}
	return p.head(s)
}

// Expr returns an index expression with the names of the kernel's symbols.
func (k *Kernel) Expr(id scalar.ID) string {
	p := printer{k: k}
	return p.expr(id)
}

type printer struct {
	k     *Kernel
	text  strings.Builder
	depth int
	table *scalar.Table // a copy that may grow, once needed
	shown int           // values of the statement
}

// maxShown bounds the values shown of a statement, as a value that is used
// twice is shown twice.
const maxShown = 400

func flag(set bool, text string) string {
	if set {
		return text
	}
	return ""
}

func (p *printer) line(format string, args ...any) {
	p.text.WriteString(strings.Repeat("  ", p.depth))
	fmt.Fprintf(&p.text, format, args...)
	p.text.WriteByte('\n')
}

func (p *printer) argument(a *Argument) string {
	switch a.Kind {
	case Pointer:
		return "pointer " + p.declaration(a.Buffer)
	case IndexScalar:
		return "integer " + p.symbol(a.Symbol)
	case ValueScalar:
		return fmt.Sprintf("scalar %s %s", a.Name, a.DType.Text())
	case RandomSeed:
		return "seed " + a.Name
	case Divisor:
		return fmt.Sprintf("divisor %s by %s", a.Name, p.expr(a.Expr))
	}
	return "offset " + a.Name
}

func (p *printer) buffer(id BufferID) string {
	if int(id) >= len(p.k.Buffers) {
		return fmt.Sprintf("buffer%d?", id)
	}
	return p.k.Buffers[id].Name
}

func (p *printer) symbol(id SymbolID) string {
	if int(id) >= len(p.k.Symbols) {
		return fmt.Sprintf("symbol%d?", id)
	}
	return p.k.Symbols[id].Name
}

// declaration is the buffer's name, type, shape and what is special about it.
func (p *printer) declaration(id BufferID) string {
	if int(id) >= len(p.k.Buffers) {
		return p.buffer(id)
	}
	b := &p.k.Buffers[id]
	if p.table == nil {
		p.table = p.k.Scalars.Clone()
	}
	size := p.table.Int(1)
	dense := true
	for i := len(b.Shape) - 1; i >= 0; i-- {
		dense = dense && i < len(b.Stride) && b.Stride[i] == size
		size = p.table.Mul(size, b.Shape[i])
	}
	text := fmt.Sprintf("%s %s%s", b.Name, b.DType.Text(), p.list(b.Shape))
	if !dense || len(b.Stride) != len(b.Shape) {
		text += " strides " + p.list(b.Stride)
	}
	if b.Size != size {
		text += " size " + p.expr(b.Size)
	}
	if b.Space == Shared {
		text += " at " + p.expr(b.Offset)
	}
	if b.Align != b.DType.Size() {
		text += fmt.Sprintf(" align %d", b.Align)
	}
	if b.Past > 0 {
		text += fmt.Sprintf(" past 16 by %d", b.Past)
	}
	return text + flag(b.Registers, " registers") + flag(b.ReadOnly, " readonly") + flag(b.Zeroed, " zeroed")
}

func (p *printer) block(b Block) {
	p.depth++
	for _, s := range b {
		p.line("%s", p.head(s))
		switch s := s.(type) {
		case *For:
			p.block(s.Body)
		case *If:
			p.block(s.Then)
			if len(s.Else) > 0 {
				p.line("else")
				p.block(s.Else)
			}
		}
	}
	p.depth--
}

var (
	spaceNames  = [...]string{"local", "shared", "global"}
	scopeNames  = [...]string{"warp", "group", "block", "cluster", "grid"}
	unrollNames = [...]string{"", " unrolled", " rolled"}
	modeNames   = [...]string{"shuffleXor", "shuffleDown", "shuffleUp", "shuffleAt", "warpMaximum"}
)

func (s Space) String() string { return spaceNames[s] }
func (s Scope) String() string { return scopeNames[s] }

func (p *printer) head(s Statement) string {
	p.shown = 0
	switch s := s.(type) {
	case Declare:
		space := "buffer"
		if int(s.Buffer) < len(p.k.Buffers) {
			space = p.k.Buffers[s.Buffer].Space.String()
		}
		return space + " " + p.declaration(s.Buffer)
	case Assign:
		return fmt.Sprintf("%s = %s%s", p.access(&s.Dst), p.value(s.Value), flag(s.Redundant, " (redundant)"))
	case Send:
		by := ""
		if s.Counted {
			by = " counted by " + p.k.Buffers[s.Arrivals].Name
		}
		return fmt.Sprintf("%s of block %s = %s%s", p.access(&s.Dst), p.expr(s.Rank), p.value(s.Value), by)
	case Expect:
		return fmt.Sprintf("expect %d bytes by %s", s.Bytes, p.k.Buffers[s.Arrivals].Name)
	case Arrived:
		return "wait for " + p.k.Buffers[s.Arrivals].Name
	case Move:
		text := fmt.Sprintf("%s = %s%s%s", p.access(&s.Dst), flag(s.Unaligned, "unaligned "), p.access(&s.Src), p.cache(s.Cache, s.Last))
		if s.Guarded {
			text += " if " + p.expr(s.Guard) + " else 0"
		}
		return text
	case AsyncCopy:
		text := fmt.Sprintf("async %s = %s", p.access(&s.Dst), p.access(&s.Src))
		if s.Guard != scalar.None {
			text += " if " + p.expr(s.Guard) + " else 0"
		}
		return text + p.cache(s.Cache, s.Last)
	case Opaque:
		return "opaque " + p.k.Buffers[s.Buffer].Name
	case UnderWay:
		return "loads under way"
	case AsyncCommit:
		return "commit"
	case AsyncWait:
		return fmt.Sprintf("wait %d", s.Pending)
	case Barrier:
		if s.Scope == GridScope {
			return "barrier grid " + p.access(&s.Semaphore)
		}
		return "barrier " + s.Scope.String()
	case ClusterStart:
		if s.Wait {
			return "wait for starts of the cluster"
		}
		return "start in the cluster"
	case Fence:
		return "fence " + s.Scope.String()
	case AtomicAdd:
		text := fmt.Sprintf("atomic %s += %s", p.access(&s.Dst), p.value(s.Value))
		if s.Old != NoSymbol {
			text = p.symbol(s.Old) + " = " + text
		}
		return text
	case Let:
		return fmt.Sprintf("let %s = %s", p.symbol(s.Symbol), p.value(s.Value))
	case Hoist:
		return fmt.Sprintf("hoist %s = %s", p.symbol(s.Symbol), p.expr(s.Expr))
	case *For:
		return fmt.Sprintf("for %s in [%s, %s) step %s%s", p.symbol(s.Symbol), p.expr(s.Start), p.expr(s.Stop), p.expr(s.Step), unrollNames[s.Unroll])
	case *If:
		return "if " + p.expr(s.Cond)
	}
	return fmt.Sprintf("%T", s)
}

// cache shows how a copy uses the caches.
func (p *printer) cache(hint CacheHint, last scalar.ID) string {
	if hint == CacheEvictLastIf {
		return cacheNames[hint] + p.expr(last) + ")"
	}
	return cacheNames[hint]
}

func (p *printer) access(a *Access) string {
	text := p.buffer(a.Buffer)
	if len(a.Coords) > 0 {
		text += p.list(a.Coords)
	}
	if a.Width > 1 {
		text += fmt.Sprintf(":%d", a.Width)
	}
	if a.Step > 1 {
		text += fmt.Sprintf(" by %d", a.Step)
	}
	return text
}

func (p *printer) value(id ValueID) string {
	if int(id) >= len(p.k.Values) {
		return fmt.Sprintf("value%d?", id)
	}
	if p.shown++; p.shown > maxShown {
		return "..."
	}
	v := &p.k.Values[id]
	switch v.Kind {
	case Constant:
		return v.Const.String()
	case HostScalar:
		if v.Int < 0 || int(v.Int) >= len(p.k.Arguments) {
			return fmt.Sprintf("argument%d?", v.Int)
		}
		return p.k.Arguments[v.Int].Name
	case IndexValue:
		return fmt.Sprintf("%s(%s)", v.DType.Text(), p.expr(v.Index))
	case Load:
		return p.access(&v.Access)
	case Operation:
		if v.Op == core.CastOp {
			return fmt.Sprintf("%s(%s)", v.DType.Text(), p.values(v.Args))
		}
		return fmt.Sprintf("%s%s(%s)", flag(v.Approximate, "~"), opName(v.Op), p.values(v.Args))
	case Order:
		return fmt.Sprintf("order(%s)", p.values(v.Args))
	case Shuffle:
		if v.Mode == WarpMaximum {
			return fmt.Sprintf("%s(%s)", modeNames[v.Mode], p.values(v.Args))
		}
		lane := fmt.Sprint(v.Int)
		if v.Mode == ShuffleAt {
			lane = p.expr(v.Index)
		}
		return fmt.Sprintf("%s(%s, %s, %d)", modeNames[v.Mode], p.values(v.Args), lane, v.Width)
	}
	source := fmt.Sprintf("stream %d", v.Stream)
	if v.Stream < 0 {
		source = p.values([]ValueID{v.Seed, v.Offset})
	}
	return fmt.Sprintf("%s(%s, %s, %s)", opName(v.Op), p.values(v.Args), source, p.expr(v.Index))
}

func opName(op *core.OpInfo) string {
	if op == nil {
		return "op?"
	}
	return op.Name
}

func (p *printer) values(ids []ValueID) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = p.value(id)
	}
	return strings.Join(parts, ", ")
}

func (p *printer) triple(ids [3]scalar.ID) string {
	return fmt.Sprintf("(%s, %s, %s)", p.expr(ids[0]), p.expr(ids[1]), p.expr(ids[2]))
}

func (p *printer) list(ids []scalar.ID) string {
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = p.expr(id)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (p *printer) expr(id scalar.ID) string {
	if int(id) >= p.k.Scalars.Len() {
		return "?"
	}
	return p.k.Scalars.Format(id, func(s scalar.ID) string { return p.symbol(SymbolID(p.k.Scalars.Tag(s).Val)) },
		func(op scalar.Op) string { return core.Op(op - scalar.FirstOpaque).String() })
}
