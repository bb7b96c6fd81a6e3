package schedule

import (
	"maps"
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/dtype"
	"nvfuser_go/core/scalar"
)

func required(name string, kind ParameterKind) Parameter {
	return Parameter{Name: name, Kind: kind}
}

func optional(name string, kind ParameterKind) Parameter {
	return Parameter{Name: name, Kind: kind, Optional: true}
}

func defaultInt(name string, kind ParameterKind, n int64) Parameter {
	return Parameter{name, kind, true, core.Given{Kind: core.GivenNumber, Num: scalar.Value{Type: dtype.Int, I: n}}}
}

func defaultFlag(name string, value bool) Parameter {
	g := core.Given{Kind: core.GivenNumber, Num: scalar.Value{Type: dtype.Bool}}
	if value {
		g.Num.I = 1
	}
	return Parameter{name, FlagParameter, true, g}
}

func defaultName(name string, kind ParameterKind, member string) Parameter {
	return Parameter{name, kind, true, core.Given{Kind: core.GivenName, Name: member}}
}

type parameters = []Parameter

// table has a row a primitive, in the order of the documentation.
var table = []Primitive{
	{Name: "split", Method: true, Parameters: parameters{required("axis", PlaceParameter), required("factor", IntegerParameter), defaultFlag("inner_split", true)},
		Does: "Replaces a loop axis of extent n by two, of extents ceil(n / factor) and factor; the latter is the inner one if inner_split is True.",
		do:   func(c *call) error { return c.split(c.flag("inner_split")) }},
	{Name: "inner_split", Method: true, Parameters: parameters{required("axis", PlaceParameter), required("factor", IntegerParameter)},
		Does: "split() whose inner axis has extent factor.",
		do:   func(c *call) error { return c.split(true) }},
	{Name: "outer_split", Method: true, Parameters: parameters{required("axis", PlaceParameter), required("factor", IntegerParameter)},
		Does: "split() whose outer axis has extent factor.",
		do:   func(c *call) error { return c.split(false) }},
	{Name: "split_whole", Method: true, Parameters: parameters{required("axis", PlaceParameter), required("capacity", IntegerParameter)},
		Does: "Replaces a loop axis by two, of extents 1 and capacity, whatever its own extent, which must not exceed capacity when the fusion is executed.",
		do:   func(c *call) error { return c.s.SplitWhole(c.tensor, c.int("axis"), int64(c.int("capacity"))) }},
	{Name: "align_rows", Method: true, Parameters: parameters{required("row", PlaceParameter), required("column", PlaceParameter), required("width", IntegerParameter),
		optional("outer", PlacesParameter)},
		Does: "Replaces the loop axis column, of n elements, by one of n + width - 1, in which those of row r come r * n % width later: vectors of width elements of a contiguous tensor are " +
			"aligned there, and narrower ones. outer lists axes whose rows precede those of row in memory, from the outermost: r counts them too. r follows from the indices of blocks and threads.",
		do: func(c *call) error {
			return c.s.AlignRows(c.tensor, c.int("row"), c.int("column"), int64(c.int("width")), c.ints("outer")...)
		}},
	{Name: "merge", Method: true, Parameters: parameters{required("axis_o", PlaceParameter), optional("axis_i", PlaceParameter)},
		Does: "Replaces two loop axes by one over their product, at the place of the first. The second runs fastest; left out, it is the one after the first.",
		do:   (*call).merge},
	{Name: "reorder", Method: true, Parameters: parameters{required("old2new", MovesParameter)},
		Does: "Moves loop axes to new places; the others keep their order.",
		do:   (*call).reorder},
	{Name: "parallelize", Method: true, Parameters: parameters{required("axis", PlaceParameter), required("parallel_type", ParallelParameter)},
		Does: "Says what runs the iterations of a loop axis.",
		do: func(c *call) error {
			return c.s.Parallelize(c.tensor, c.int("axis"), Parallel(c.int("parallel_type")))
		}},
	{Name: "cache_after", Method: true, Returns: OneTensor,
		Parameters: parameters{defaultName("op_type", CopyParameter, "set"), defaultName("cache_op", CacheParameter, "unspecified"),
			defaultFlag("propagate_allocation_domain", true), optional("cached_uses", TensorsParameter)},
		Does: "Makes a copy of the tensor that all, or those of cached_uses, of its readers read. op_type is the instruction of the copy, cache_op how its loads are cached. " +
			"A copy is laid out by its own set_allocation_domain(): propagate_allocation_domain changes nothing.",
		do: (*call).cacheAfter},
	{Name: "cache_before", Method: true, Returns: OneTensor, Parameters: parameters{defaultName("op_type", CopyParameter, "set")},
		Does: "Computes a new tensor as this one was, with its loops, and makes this one a copy of it by the instruction op_type.",
		do:   (*call).cacheBefore},
	{Name: "cache_fork", Method: true, Returns: OneTensor,
		Does: "Makes a copy of an output the output instead, so that what reads the tensor need not read an output back.",
		do:   func(c *call) error { return c.one(c.s.CacheFork(c.tensor)) }},
	{Name: "recompute", Method: true, Returns: OneTensor, Parameters: parameters{optional("uses", TensorsParameter)},
		Does: "Makes a tensor that is computed as this one is, once more, which all, or those of uses, of its readers read.",
		do:   func(c *call) error { return c.one(c.s.Recompute(c.tensor, c.all("uses"))) }},
	{Name: "rfactor", Method: true, Returns: SomeTensors, Parameters: parameters{required("axes", PlacesParameter)},
		Does: "Computes a reduction in two steps: a new tensor reduces the loop axes at the places axes, and this one what is left.",
		do: func(c *call) (err error) {
			c.out.Tensors, err = c.s.RFactor(c.tensor, c.ints("axes"))
			return err
		}},
	{Name: "set_memory_type", Method: true, Parameters: parameters{required("memory_type", MemoryParameter)},
		Does: "Says where the tensor lives.",
		do:   func(c *call) error { return c.s.SetMemory(c.tensor, Memory(c.int("memory_type"))) }},
	{Name: "hold_packed", Method: true,
		Does: "Lets each loop that reads the tensor, which is in registers, take its elements from there, so that what an earlier loop made of them is not kept in more registers.",
		do:   func(c *call) error { return c.s.HoldPacked(c.tensor) }},
	{Name: "hold_window", Method: true, Parameters: parameters{defaultFlag("swizzled", false)},
		Does: "Lets the tensor, a copy of an input in shared memory, hold all elements of each row from the first to the last that a block has, " +
			"which its threads load together, 16 bytes at a time, wherever the rows begin. If it is swizzled, word k of these, of 4 bytes, lies where word k^(r % 4) of row r would.",
		do: func(c *call) error { return c.s.HoldWindow(c.tensor, c.flag("swizzled")) }},
	{Name: "keep", Method: true, Parameters: parameters{required("earlier", TensorParameter), required("loop", IntegerParameter), required("kept", IntegerParameter), optional("warm", IntegerParameter)},
		Does: "Lets the tensor, a copy of one in global memory, take the elements of the last kept iterations of its loop axis at place loop from shared memory, " +
			"where earlier, a copy of the same, leaves them. The loop runs from the last iteration to the first; those of warm iterations before are to stay in the second cache.",
		do: func(c *call) error {
			warm := 0
			if x := c.argument("warm"); x.present {
				warm = x.number
			}
			return c.s.Keep(c.tensor, c.of("earlier"), c.int("loop"), int64(c.int("kept")), int64(warm))
		}},
	{Name: "set_allocation_domain", Method: true, Parameters: parameters{required("new_allocation_domain", AxesParameter), required("new_contiguity", ContiguityParameter)},
		Does: "Lays the tensor out along axes of it, outermost first. Contiguity is a promise an axis, None for broadcasts and reduced axes, or one for all.",
		do:   (*call).setAllocation},
	{Name: "set_loop_domain", Method: true, Parameters: parameters{required("new_loop_domain", AxesParameter)},
		Does: "Makes axes of the tensor its loop axes, outermost first.",
		do:   func(c *call) error { return c.s.SetLoop(c.tensor, c.axes("new_loop_domain")) }},
	{Name: "swizzle", Method: true, Parameters: parameters{required("x", IntegerParameter), required("y", IntegerParameter)},
		Does: "Stores element (x, y) of a tensor in shared memory in column x ^ y of row x, so that the rows of a column lie in different banks. " +
			"x and y count axes of the allocation domain, which is set before; the extent of y is a power of two.",
		do: func(c *call) error { return c.s.SwizzleXOR(c.tensor, c.int("x"), c.int("y")) }},
	{Name: "swizzle1d", Method: true, Parameters: parameters{required("x", IntegerParameter), required("parallel_type", ParallelParameter)},
		Does: "Raises Unsupported: which block or device computes what is not permuted.",
		do: func(c *call) error {
			return c.unsupported("swizzle", "axis %d of %s would be permuted by %s: only storage in shared memory is permuted, by swizzle()",
				c.int("x"), c.s.name(c.tensor), Parallel(c.int("parallel_type")).PythonName())
		}},
	{Name: "circular_buffer", Method: true, Parameters: parameters{required("number_of_stages", IntegerParameter), optional("prefetch_distance", IntegerParameter)},
		Does: "Gives the tensor a circular buffer of number_of_stages tiles, of which prefetch_distance are loaded ahead of the one in use; left out, all but that one.",
		do:   (*call).circularBuffer},
	{Name: "transform_like", Returns: Refusing, Parameters: parameters{required("reference_tv", TensorParameter), optional("selected_tensors", TensorsParameter)},
		Does: "Gives the selected tensors, or all, the loop domain of the reference. What cannot follow keeps its loops; the reasons are returned.",
		do: func(c *call) (err error) {
			c.out.Refusals, err = c.s.TransformLike(c.of("reference_tv"), c.all("selected_tensors"))
			return err
		}},
	{Name: "bounded_transform_backward", Returns: Refusing,
		Parameters: parameters{required("from", TensorParameter), required("pos", IntegerParameter), required("to", TensorsParameter), defaultFlag("propagate_parallel_type", false)},
		Does:       "Gives the producers of `from`, as far as the tensors of `to`, its first pos loops (-1: all) and, if asked, their parallel types. What cannot follow keeps its loops; the reasons are returned.",
		do:         (*call).transformBackward},
	{Name: "parallelize_like",
		Parameters: parameters{required("reference_tv", TensorParameter), defaultInt("pos", IntegerParameter, -1), optional("selected_tensors", TensorsParameter),
			optional("selected_parallel_types", ParallelsParameter), defaultFlag("propagate_padding", true)},
		Does: "Gives the loop axes of the selected tensors, or of all, the parallel types of the corresponding ones among the first pos (-1: all) of the reference, those of selected_parallel_types or all. " +
			"Axes are not padded: propagate_padding changes nothing.",
		do: (*call).parallelizeLike},
	{Name: "inline_most", Parameters: parameters{optional("selected_tensors", TensorsParameter)},
		Does: "Computes the selected tensors, or all, inside the loops of their consumers, as far as possible.",
		do:   func(c *call) error { return c.s.InlineMost(c.all("selected_tensors"), nil) }},
	{Name: "inline_at",
		Parameters: parameters{required("reference_tv", TensorParameter), defaultInt("pos", IntegerParameter, -1), defaultFlag("best_effort", false), optional("selected_tensors", TensorsParameter)},
		Does:       "Computes the selected tensors, or all, inside the loops of their consumers that correspond to the first pos (-1: all) of the reference; with best_effort, as far as possible.",
		do: func(c *call) error {
			return c.s.InlineAllAt(c.of("reference_tv"), c.int("pos"), c.flag("best_effort"), c.all("selected_tensors"))
		}},
	{Name: "side_by_side",
		Does: "Lets tensors that are not computed from each other be computed by blocks of their own, along grid_x: those of one set of tensors follow those of another.",
		do: func(c *call) error {
			c.s.SetSideBySide()
			return nil
		}},
	{Name: "warp_specialize",
		Parameters: parameters{required("tv", TensorParameter), required("number_of_stages", IntegerParameter), required("prefetch_distance", IntegerParameter),
			required("parallel_type", ParallelParameter), optional("num_registers", PlacesParameter)},
		Does: "Raises Unsupported: all warps of a block run one program.",
		do: func(c *call) error {
			c.tensor = c.of("tv")
			return c.unsupported("warp specialization", "%s would be loaded by warps of its own: all warps of a block run one program; circular_buffer() lets every warp load ahead", c.s.name(c.tensor))
		}},
}

// byName is filled before the first lookup.
var byName = map[string]*Primitive{}

func init() {
	for i := range table {
		byName[table[i].Name] = &table[i]
	}
}

func (c *call) one(v core.ValID, err error) error {
	if err == nil {
		c.out.Tensors = []core.ValID{v}
	}
	return err
}

func (c *call) split(inner bool) error {
	return c.s.Split(c.tensor, c.int("axis"), int64(c.int("factor")), inner)
}

func (c *call) merge() error {
	outer, inner := c.int("axis_o"), c.argument("axis_i")
	if !inner.present {
		n := len(c.s.Loop(c.tensor))
		if outer == n-1 || outer == -1 {
			return core.InvalidArgumentf("merge(): axis %d is the last of %s; there is none after it to merge with", outer, c.s.name(c.tensor))
		}
		return c.s.Merge(c.tensor, outer, outer+1)
	}
	return c.s.Merge(c.tensor, outer, inner.number)
}

func (c *call) reorder() error {
	moves, list := map[int]int{}, c.ints("old2new")
	for i := 0; i < len(list); i += 2 {
		if _, ok := moves[list[i]]; ok {
			return core.InvalidArgumentf("reorder(): axis %d of %s is moved twice", list[i], c.s.name(c.tensor))
		}
		moves[list[i]] = list[i+1]
	}
	return c.s.Reorder(c.tensor, moves)
}

func (c *call) cacheAfter() error {
	// The copy is always one, so that neither setting fails.
	v, err := c.s.CacheAfter(c.tensor, c.all("cached_uses"))
	if err == nil {
		err = c.s.SetCopy(v, CopyKind(c.int("op_type")), CacheHint(c.int("cache_op")))
	}
	return c.one(v, err)
}

func (c *call) cacheBefore() error {
	v, err := c.s.CacheBefore(c.tensor)
	if kind := CopyKind(c.int("op_type")); err == nil && kind != PlainCopy {
		copied := c.tensor
		if d := c.s.f.Val(copied).Def; c.s.f.Expr(d).Op != core.SetOp { // its definition stayed, and its operand is the copy
			copied = v
		}
		err = c.s.SetCopy(copied, kind, c.s.CacheHint(copied))
	}
	return c.one(v, err)
}

func (c *call) setAllocation() error {
	axes, given := c.axes("new_allocation_domain"), c.argument("new_contiguity")
	contiguity := make([]core.Tri, len(axes))
	if given.numbers != nil {
		if len(given.numbers) != len(axes) {
			return core.InvalidArgumentf("set_allocation_domain(): %d contiguity flags for %d axes of %s", len(given.numbers), len(axes), c.s.name(c.tensor))
		}
		for k, n := range given.numbers {
			contiguity[k] = [...]core.Tri{core.NotApplicable, core.No, core.Yes}[n+1]
		}
		return c.s.SetAllocation(c.tensor, axes, contiguity)
	}
	for k := range contiguity {
		contiguity[k] = [...]core.Tri{core.No, core.Yes}[given.number]
	}
	return c.s.SetAllocation(c.tensor, axes, contiguity)
}

func (c *call) circularBuffer() error {
	stages, prefetch := c.int("number_of_stages"), c.argument("prefetch_distance")
	distance := prefetch.number
	if !prefetch.present || distance == -1 {
		distance = stages - 1
	}
	return c.s.SetBuffering(c.tensor, stages, distance)
}

func (c *call) transformBackward() (err error) {
	from, position, to, saved := c.of("from"), c.int("pos"), c.all("to"), c.s
	if c.flag("propagate_parallel_type") {
		saved = c.s.Clone()
	}
	c.out.Refusals, err = c.s.TransformBackward(from, position, to)
	if err != nil || !c.flag("propagate_parallel_type") {
		return err
	}
	between := slices.Sorted(maps.Keys(c.s.between(to, from)))
	if err = c.s.ParallelizeLike(from, position, between, nil); err != nil {
		*c.s = *saved
	}
	return err
}

func (c *call) parallelizeLike() error {
	var types []Parallel
	for _, n := range c.ints("selected_parallel_types") {
		types = append(types, Parallel(n))
	}
	return c.s.ParallelizeLike(c.of("reference_tv"), c.int("pos"), c.all("selected_tensors"), types)
}
