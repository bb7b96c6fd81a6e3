package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
	"nvfuser_go/core/fusionfuzz"
	"nvfuser_go/core/schedule"
)

// A regression is a program that random schedules found to be wrong.
type regression struct {
	name   string
	text   string
	sizes  [][]int64
	script string
}

var regressions = []regression{
	// The parts of an index that a loop undoes a reshape to are those of a shape that has the writer's own axis, and no others.
	{"two shapes of one loop", `%0 = tensor i64 [33, 4] contiguity=[yes, yes]
%1 = tensor i64 [1, 4] contiguity=[none, yes]
%2 = reshape %0 new_shape=[132]
%3 = mul %2, 0:i64
%4 = reshape %0 new_shape=[66, 2]
%5 = neg %1
%6 = add %5, %0
%7 = permute %6 dims=[1, 0]
output %3
output %4
output %7
`, [][]int64{{33, 4}, {1, 4}}, `tv8 = tv0.cache_after(cp_async)
tv8.set_memory_type(shared)
tv5.set_memory_type(global)
tv3.split(0, 7)
transform_like(tv3, [tv0, tv8, tv2, tv4, tv1, tv5, tv6, tv7])
inline_most()
tv8.parallelize(1, grid_x)
tv7.parallelize(0, block_y)
`},
	// What parts of an index make is followed where the writer's own axis lies behind that, and not behind the parts.
	{"two shapes after one", `%0 = tensor i64 [16] contiguity=[yes]
%1 = tensor i64 [1, 16, 2] contiguity=[none, yes, yes]
%2 = reshape %1 new_shape=[16, 2]
%3 = broadcast %0 is_broadcast_dim=[false, true]
%4 = mul %2, %3
%5 = reshape %2 new_shape=[8, 4]
%6 = reshape %5 new_shape=[1, 16, 2]
%7 = reshape %5 new_shape=[2, 4, 4]
output %3
output %4
output %6
output %7
`, [][]int64{{16}, {1, 16, 2}}, `tv8 = tv3.cache_fork()
transform_like(tv7, [tv1, tv0, tv3, tv8, tv2, tv4, tv5, tv6])
inline_at(tv3, 3, False, [tv3])
tv3.parallelize(1, grid_x)
`},
	// As above, and a third shape of one of the parts has no axis of the writer.
	{"three shapes after one", `%0 = tensor i64 [16] contiguity=[yes]
%1 = tensor i64 [1, 16, 2] contiguity=[none, yes, yes]
%2 = tensor i64 [4, 2, 4] contiguity=[yes, yes, yes]
%3 = reshape %1 new_shape=[16, 2]
%4 = broadcast %0 is_broadcast_dim=[false, true]
%5 = mul %3, %4
%6 = reshape %3 new_shape=[8, 4]
%7 = reshape %2 new_shape=[8, 4]
%8 = add %6, %7
%9 = reshape %8 new_shape=[2, 4, 4]
output %4
output %5
output %9
`, [][]int64{{16}, {1, 16, 2}, {4, 2, 4}}, `tv10 = tv4.cache_fork()
transform_like(tv9)
inline_at(tv4, 3, False, [tv4])
tv4.parallelize(1, grid_x)
`},
	// All results of a reduction across threads are guarded where one has no room
	// for points without an element.
	{"results laid out differently", `%0 = tensor f32 [-1] contiguity=[yes]
%1, %2, %3 = welford %0 dims=[0]
output %1
output %2
output %3
`, [][]int64{{2}}, `tv1.split(0, 3)
tv2.split(0, 3)
tv3.split(0, 3)
tv4, tv5, tv6 = tv1.rfactor([1])
tv4.split(0, 3)
tv5.split(0, 3)
tv6.split(0, 3)
tv4.parallelize(2, block_x)
tv5.parallelize(2, block_x)
tv6.parallelize(2, block_x)
tv4.set_memory_type(shared)
tv5.set_memory_type(shared)
tv6.set_memory_type(shared)
tv5.set_allocation_domain([tv5.logical[0], tv5.logical[1]], True)
`},
	// The index along storage in promoted loops is the value of a loop that both
	// share, not that of an axis of the same extent that the reader reduces.
	{"shared loop of promoted storage", `%0 = tensor i64 [4, 3] contiguity=[yes, yes]
%1 = sum %0 dims=[0] keepdim=false dtype=i64
%2 = broadcast %1 is_broadcast_dim=[true, false]
%3 = sub %2, %0
output %3
`, [][]int64{{4, 3}}, `tv1.split(0, 4)
tv4 = tv1.rfactor([0])
tv3.merge(0, 1)
tv3.split(0, 2, False)
transform_like(tv3)
tv4.parallelize(1, unroll)
inline_at(tv2, 2, False, [tv2])
inline_at(tv1, 1, False, [tv1])
inline_at(tv4, 2, False, [tv4])
`},
	// A reduction in promoted loops reads what is stored along one of them in this
	// iteration of the loops that both share, though the element lies in others too.
	{"reduction of promoted storage", `%0 = tensor i64 [5, 12, 1] contiguity=[yes, yes, none]
%1 = squeeze %0 dims=[2] squeeze_expanded=false
%2 = sum %1 dims=[1] keepdim=false dtype=i64
%3 = broadcast %2 is_broadcast_dim=[false, true, true]
%4 = sub %0, %3
output %4
`, [][]int64{{5, 12, 1}}, `tv3.merge(0, 1)
tv3.split(0, 7)
tv3.split(1, 4, False)
transform_like(tv3, [tv0, tv1, tv2, tv4])
inline_at(tv2, 2, False, [tv2])
inline_at(tv3, 2, False, [tv3])
inline_at(tv1, 2, False, [tv1])
`},
	// The writer among blocks of a promoted loop is the first of what is no axis of
	// the tensor, also if a split by 1 lies between that and the loop.
	{"writer behind a split by 1", `%0 = tensor i64 [12, 16] contiguity=[yes, yes]
%1 = tensor i64 [12] contiguity=[yes]
%2 = tensor i64 [12] contiguity=[yes]
%3 = broadcast %1 is_broadcast_dim=[false, true]
%4 = mul %3, %0
%5 = mul %1, %2
output %4
output %5
`, [][]int64{{12, 16}, {12}, {12}}, `tv6 = tv1.cache_after()
tv4.reorder({0: 1})
tv4.split(1, 4)
tv4.merge(0, 1)
tv4.split(0, 1)
tv4.merge(1, 2)
tv4.split(1, 4)
transform_like(tv4, [tv1, tv6, tv3, tv0, tv2, tv5])
inline_most()
tv5.parallelize(0, grid_z)
`},
	// Of the threads that promoted loops make write one element, only those write
	// that have a point of the loops.
	{"writers without a point", `%0 = tensor i64 [16, 2] contiguity=[yes, yes]
%1 = tensor i64 [2] contiguity=[no]
%2 = tensor i64 [6, 1, 2] contiguity=[yes, none, yes]
%3 = tensor i64 [1, 1] contiguity=[none, none]
%4 = broadcast %1 is_broadcast_dim=[true, false]
%5 = add %0, %4
%6 = broadcast %4 is_broadcast_dim=[true, false, false]
%7 = add %2, %6
%8 = reshape %7 new_shape=[6, 1, 2]
%9 = mul %7, %8
%10 = reshape %2 new_shape=[6, 2]
%11 = sub %10, %3
output %5
output %9
output %11
`, [][]int64{{16, 2}, {2}, {6, 1, 2}, {1, 1}}, `tv12 = tv2.cache_after()
tv8.set_memory_type(global)
tv5.merge(0, 1)
tv5.split(0, 4, False)
tv5.split(1, 4)
transform_like(tv5, [tv0, tv1, tv4, tv2, tv12, tv6, tv7, tv8, tv9, tv10, tv3, tv11])
inline_most()
tv4.set_memory_type(shared)
tv10.set_memory_type(shared)
tv4.parallelize(0, block_z)
tv11.parallelize(3, block_z)
`},
	// A vectorised copy of what only the last block has is made by that block, and
	// read by no other.
	{"vector of a reduction across blocks", `%0 = tensor i64 [8, 16] contiguity=[yes, yes]
%1 = max %0 dims=[0] keepdim=false dtype=null
%2 = broadcast %1 is_broadcast_dim=[true, false]
output %2
`, [][]int64{{8, 16}}, `tv3 = tv1.cache_before()
tv1.split(0, 2)
tv1.parallelize(-1, vectorize)
tv3.parallelize(0, grid_x)
tv3.parallelize(1, block_x)
tv3.set_memory_type(shared)
`},
	// Two axes of an input that are one loop by way of its readers have an index
	// each.
	{"axes of an input that meet", `%0 = tensor i64 [33, 1] contiguity=[yes, none]
%1 = tensor i64 [33, 33] contiguity=[yes, yes]
%2 = tensor i64 [33, 34] contiguity=[yes, yes]
%3 = permute %0 dims=[1, 0]
%4 = scatter %3, %1, %2 dim=0
%5 = take_along_axis %1, %0 dim=1
output %4
output %5
`, [][]int64{{33, 1}, {33, 33}, {33, 34}}, ""},
	// Threads of a promoted loop that reduce the same element add it once.
	{"reduction by threads of a larger loop", `%0 = tensor i64 [33, 4] contiguity=[yes, yes]
%1 = tensor i64 [33] contiguity=[yes]
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = mul %0, %2
%4 = sum %1 dims=[0] keepdim=false dtype=i64
output %3
output %4
`, [][]int64{{33, 4}, {33}}, `tv5 = tv1.cache_after()
tv5.set_memory_type(shared)
tv6 = tv4.cache_before()
tv3.merge(0, 1)
transform_like(tv3)
inline_at(tv2, 1, False, [tv2])
inline_at(tv5, 1, False, [tv5])
tv2.parallelize(0, block_x)
`},
	// The block that has the result of a reduction across blocks is the only one to
	// read and overwrite an input.
	{"input overwritten by the last block", `%0 = tensor f32 [-1, 5] contiguity=[yes, yes]
%1 = tensor f32 [5] contiguity=[yes]
%2 = max %0 dims=[0] keepdim=false dtype=null
%3 = maximum %2, %1
output %3 alias %1
`, [][]int64{{3, 5}, {5}}, `tv2.parallelize(0, grid_x)
tv2.parallelize(1, block_x)
tv3.parallelize(0, block_x)
`},
	// One thread of a row writes what all of them read before.
	{"row scalars overwritten by one of their readers", `%0 = tensor f32 [-1, -1, 4] contiguity=[yes, yes, yes]
%1 = tensor f32 [-1, -1] contiguity=[yes, yes]
%2 = broadcast %1 is_broadcast_dim=[false, false, true]
%3 = add %0, %2
%4 = sum %0 dims=[2] keepdim=false dtype=f32
%5 = add %4, %1
output %3
output %5 alias %1
`, [][]int64{{3, 2, 4}, {3, 2}}, `tv6 = tv1.cache_after()
tv3.parallelize(0, grid_x)
tv3.parallelize(1, grid_y)
tv3.parallelize(2, block_x)
parallelize_like(tv3)
inline_most()
`},
	// Copies of parts of which some are of nothing.
	{"copied parts of a welford", `%0 = tensor f32 [-1] contiguity=[yes]
%1, %2, %3 = welford %0 dims=[0]
output %1
output %2
output %3
`, [][]int64{{2}}, `tv1.split(0, 4)
tv2.split(0, 4)
tv3.split(0, 4)
tv4, tv5, tv6 = tv1.rfactor([0])
tv7 = tv4.cache_after()
tv8 = tv5.cache_after()
tv9 = tv6.cache_after()
`},
	// The sum's own loop leads to the parts in which its operand is stored; the loops
	// that it shares with another tensor run over parts of the same extents.
	{"parts of an own loop", `%0 = tensor i64 [16] contiguity=[yes]
%1 = tensor i64 [1] contiguity=[none]
%2 = tensor i64 [16, 2, 1] contiguity=[yes, yes, none]
%3 = sub %1, %0
%4 = broadcast %0 is_broadcast_dim=[false, true]
%5 = broadcast %1 is_broadcast_dim=[true, false]
%6 = add %4, %5
%7 = broadcast %6 is_broadcast_dim=[false, true, false]
%8 = neg %7
%9 = add %2, %8
output %3
output %9
`, [][]int64{{16}, {1}, {16, 2, 1}}, `tv10 = tv0.cache_after()
tv11 = tv1.cache_after()
tv12 = tv3.cache_before()
tv12.split(0, 2)
tv12.split(0, 4)
tv12.split(2, 4)
transform_like(tv12, [tv0, tv10, tv4, tv1, tv11, tv3, tv2, tv5, tv6, tv7, tv8, tv9])
inline_at(tv5, 3, False, [tv5])
inline_at(tv11, 3, False, [tv11])
`},
	// Threads beyond the one element of a slice, which all store it, read that one.
	{"one element of a slice in a larger loop", `%0 = tensor i64 [5] contiguity=[yes]
%1 = tensor i64 [1, 7] contiguity=[none, yes]
%2 = slice %0 start_indices=[3] end_indices=[4] strides=[1] manual_normalization=true
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = sub %1, %3
output %4
`, [][]int64{{5}, {1, 7}}, `tv4.merge(0, 1)
tv4.split(0, 5)
transform_like(tv4, [tv0, tv2, tv3, tv1])
inline_most()
tv3.set_memory_type(shared)
tv4.parallelize(1, block_x)
`},
	// A loop that runs past the one element of a slice reads nothing behind it.
	{"last element of a tensor in a larger loop", `%0 = tensor i64 [5] contiguity=[yes]
%1 = tensor i64 [1, 7] contiguity=[none, yes]
%2 = slice %0 start_indices=[4] end_indices=[5] strides=[1] manual_normalization=true
%3 = broadcast %2 is_broadcast_dim=[false, true]
%4 = sub %1, %3
output %4
`, [][]int64{{5}, {1, 7}}, `tv4.merge(0, 1)
tv4.split(0, 5)
transform_like(tv4, [tv0, tv2, tv3, tv1])
inline_most()
`},
	// A loop that is split further runs past the promoted loop that its operand is
	// stored in.
	{"split of a promoted loop", `%0 = tensor i64 [7] contiguity=[yes]
%1 = tensor i64 [7, 12] contiguity=[yes, yes]
%2 = broadcast %0 is_broadcast_dim=[false, true]
%3 = neg %2
%4 = sub %1, %3
output %4
`, [][]int64{{7}, {7, 12}}, `tv5 = tv2.cache_after()
tv4.split(1, 4)
tv4.reorder({2: 1})
tv4.reorder({0: 2})
tv4.merge(1, 2)
transform_like(tv4, [tv1, tv0, tv2, tv5, tv3])
tv5.split(1, 2)
inline_most()
`},
	// So does a reduction, which has an element for each iteration of its loops.
	{"reduction in a split of a promoted loop", `%0 = tensor i64 [7, 3] contiguity=[yes, yes]
%1 = tensor i64 [7, 12] contiguity=[yes, yes]
%2 = broadcast %0 is_broadcast_dim=[false, true, false]
%3 = sum %2 dims=[2] keepdim=false dtype=i64
%4 = neg %3
%5 = sub %1, %4
output %5
`, [][]int64{{7, 3}, {7, 12}}, `tv5.split(1, 4)
tv5.reorder({2: 1})
tv5.reorder({0: 2})
tv5.merge(1, 2)
transform_like(tv5, [tv1, tv0, tv2, tv3, tv4])
tv3.split(1, 2)
inline_most()
`},
	// What a pad adds has no element of an operand, in promoted loops as well.
	{"pad in a promoted loop", `%0 = tensor i64 [1, 3] contiguity=[none, yes]
%1 = tensor i64 [3, 1] contiguity=[yes, none]
%2 = permute %0 dims=[0, 1]
%3 = pad %2 pad_widths=[0, 2, 0, 0] value=7:i64
%4 = sub %2, %1
output %3
output %4
`, [][]int64{{1, 3}, {3, 1}}, "inline_most()\n"},
	{"pad in a promoted loop, on both sides", `%0 = tensor i32 [7] contiguity=[yes]
%1 = tensor i32 [] contiguity=[]
%2 = tensor i32 [1, 33] contiguity=[none, yes]
%3 = broadcast %1 is_broadcast_dim=[true]
%4 = sub %0, %3
%5 = broadcast %3 is_broadcast_dim=[false, true]
%6 = sub %5, %2
%7 = pad %6 pad_widths=[2, 2, 0, 0] value=7:i64
output %4
output %7
`, [][]int64{{7}, {}, {1, 33}}, `inline_at(tv3, 1, False, [tv3])
inline_at(tv5, 2, False, [tv5])
inline_at(tv6, 1, False, [tv6])
`},
	// Beyond what its operand stores, a pad has neither an element nor its value.
	{"pad in a split of a promoted loop", `%0 = tensor i64 [7, 3] contiguity=[yes, yes]
%1 = tensor i64 [7, 12, 4] contiguity=[yes, yes, yes]
%2 = broadcast %0 is_broadcast_dim=[false, true, false]
%3 = pad %2 pad_widths=[0, 1, 0, 0, 0, 0] value=7:i64
%4 = neg %3
%5 = sub %1, %4
output %5
`, [][]int64{{7, 3}, {7, 12, 4}}, `tv5.split(1, 4)
tv5.reorder({2: 1})
tv5.reorder({0: 2})
tv5.merge(1, 2)
transform_like(tv5, [tv1, tv3, tv4])
tv2.split(1, 4)
tv2.reorder({2: 1})
tv2.reorder({0: 2})
tv2.merge(1, 2)
tv3.split(1, 2)
inline_most()
`},
	// A total is stored where there is an element, also if what it adds has a value
	// everywhere.
	{"total of a block without an element", `%0 = tensor i64 [3, 12, 7] contiguity=[yes, yes, yes]
%1 = tensor i64 [1, 12, 7] contiguity=[none, yes, yes]
%2 = add %1, %0
%3 = max %2 dims=[2] keepdim=false dtype=null
%4 = broadcast %3 is_broadcast_dim=[false, false, true]
%5 = mul %2, %4
output %5
`, [][]int64{{3, 12, 7}, {1, 12, 7}}, `tv5.split(0, 5)
tv5.split(3, 2)
transform_like(tv5, [tv1, tv0, tv2, tv3, tv4])
tv2.parallelize(3, block_x)
tv3.parallelize(3, block_x)
tv5.parallelize(3, block_x)
tv3.set_allocation_domain([tv3.loop[2], tv3.logical[0], tv3.logical[2]], True)
`},
	// As many points of a block as elements are stored, but those of later blocks are beyond them.
	{"asynchronous copy of blocks in the order of the tensor", `%0 = tensor i64 [16, 3] contiguity=[yes, yes]
%1 = permute %0 dims=[1, 0]
output %1
`, [][]int64{{16, 3}}, `tv2 = tv0.cache_after(cp_async)
tv2.set_memory_type(shared)
tv2.merge(0, 1)
tv2.split_whole(0, 48)
tv2.split(0, 4)
transform_like(tv2, [tv0, tv1])
tv2.parallelize(1, grid_z)
tv1.parallelize(1, grid_z)
tv2.set_allocation_domain([tv2.logical[0], tv2.logical[1]], True)
`},
	{"asynchronous copy of iterations in the order of the tensor", `%0 = tensor i64 [4] contiguity=[yes]
%1 = permute %0 dims=[0]
output %1
`, [][]int64{{4}}, `tv2 = tv0.cache_after(cp_async)
tv2.set_memory_type(shared)
tv1.split(0, 7, False)
tv1.split(0, 4, False)
transform_like(tv1, [tv0, tv2])
inline_most()
tv2.parallelize(0, block_x)
tv2.set_allocation_domain([tv2.logical[0]], True)
`},
	// Whether tests can fail in unswitched loops is not asked where it has no value.
	{"unswitched loop of nothing", `%0 = tensor i64 [2, 0] contiguity=[yes, yes]
%1 = neg %0
output %1
`, [][]int64{{2, 0}}, `tv1.split(0, 2)
tv1.split(1, 7)
tv1.split(2, 2)
tv1.merge(3, 4)
tv1.parallelize(1, unswitch)
`},
	// Results of one sort in different memory are written by different threads each.
	{"one result of a sort in global memory", `%0 = tensor f32 [4] contiguity=[yes]
%1, %2 = topk %0 k=4 dim=0 largest=true sorted=true
%3 = sub %2, -3:i64
%4 = neg %1
output %3
output %4
`, [][]int64{{4}}, `tv5 = tv0.cache_after()
tv5.set_memory_type(shared)
tv2.set_memory_type(global)
tv3.split(0, 2)
tv3.parallelize(1, grid_x)
`},
	{"the other result of a sort in global memory", `%0 = tensor f32 [4] contiguity=[yes]
%1, %2 = topk %0 k=4 dim=0 largest=true sorted=true
%3 = sub %2, -3:i64
%4 = neg %1
output %3
output %4
`, [][]int64{{4}}, `tv5 = tv0.cache_after()
tv5.set_memory_type(shared)
tv1.set_memory_type(global)
tv2.set_memory_type(shared)
tv3.split(0, 2)
tv3.parallelize(1, grid_x)
`},
	// What is computed of a sort of what the last block has, that block has alone.
	{"sort of a reduction across blocks", `%0 = tensor f32 [8, 4] contiguity=[yes, yes]
%1 = sum %0 dims=[0] keepdim=false dtype=f32
%2, %3 = topk %1 k=4 dim=0 largest=true sorted=true
%4 = neg %2
output %4
`, [][]int64{{8, 4}}, `tv5 = tv1.cache_after()
tv5.set_memory_type(shared)
tv1.parallelize(0, grid_x)
`},
	// The identity that a reduction relies on in one result is not stored in the others.
	{"reduction of one result of a sort", `%0 = tensor f32 [3] contiguity=[yes]
%1, %2 = topk %0 k=3 dim=0 largest=true sorted=true
%3 = sum %1 dims=[0] keepdim=false dtype=f32
output %2
output %3
`, [][]int64{{3}}, `tv4 = tv0.cache_after()
tv4.set_memory_type(shared)
tv5 = tv3.cache_before()
tv1.split(0, 4)
transform_like(tv1)
`},
	// What threads have of a state in shared memory only its writer adds, also where parts
	// are added together.
	{"parts of a state that one thread writes", `%0 = tensor f32 [5] contiguity=[yes]
%1, %2, %3 = welford %0 dims=[0]
output %1
`, [][]int64{{5}}, `tv1.split(0, 3)
transform_like(tv1, [tv2, tv3])
tv2.set_memory_type(shared)
tv3.set_memory_type(shared)
tv3.parallelize(1, block_x)
`},
	// A block without a tile has the only iteration of a loop over tiles all the same.
	{"one iteration of tiles that blocks are dealt", `%0 = tensor i64 [2] contiguity=[yes]
%1 = neg %0
output %1
`, [][]int64{{2}}, `tv2 = tv0.cache_after()
tv1.split(0, 4)
transform_like(tv1, [tv0, tv2])
inline_at(tv2, 2, False, [tv2])
tv1.parallelize(1, grid_x)
tv2.circular_buffer(2, 1)
`},
	// Blocks are told apart by a loop inside that over tiles, which is not open yet where the
	// tiles of a block are counted.
	{"blocks that are dealt tiles inside the loop over them", `%0 = tensor i64 [3, 5] contiguity=[yes, yes]
%1 = neg %0
output %1
`, [][]int64{{3, 5}}, `tv2 = tv0.cache_after(cp_async)
tv2.set_memory_type(shared)
tv1.split(1, 2)
transform_like(tv1)
inline_at(tv2, 2, False, [tv2])
tv1.parallelize(2, grid_x)
tv2.circular_buffer(2, 1)
`},
	// Parts of nothing are dealt to no block.
	{"tiles of nothing that no block is dealt", `%0 = tensor i64 [0] contiguity=[yes]
%1 = sum %0 dims=[0] keepdim=false dtype=i64
%2 = neg %1
output %2
`, [][]int64{{0}}, `tv3 = tv0.cache_after()
tv1.split(0, 2, False)
tv4 = tv1.rfactor([0])
transform_like(tv2, [tv0, tv3, tv4, tv1, tv2])
inline_most()
tv4.parallelize(0, grid_x)
tv3.circular_buffer(2, 1)
`},
	// A part without its index tests is the identity in the iterations that add nothing.
	{"parts in a loop that the reduction has no axis for", `%0 = tensor i64 [33, 3] contiguity=[yes, yes]
%1 = neg %0
%2 = sum %1 dims=[0] keepdim=false dtype=i64
%3 = broadcast %2 is_broadcast_dim=[true, false]
%4 = mul %0, %3
%5 = neg %0
output %4
output %5
`, [][]int64{{33, 3}}, `tv2.split(0, 4)
tv6 = tv2.rfactor([0])
transform_like(tv4, [tv0, tv1, tv6, tv2, tv3, tv5])
tv2.parallelize(0, unswitch)
inline_most()
tv1.parallelize(1, block_y)
tv5.parallelize(0, block_y)
`},
	// A scan is in no loop that is emitted twice: what threads have of a line is for all of it.
	{"scan in an unswitched loop", `%0 = tensor f32 [-1, 32] contiguity=[yes, yes]
%1 = cumsum %0 dim=1
output %1
`, [][]int64{{4, 32}}, `tv1.split(0, 2)
tv1.parallelize(0, unswitch)
tv1.parallelize(1, block_y)
tv1.parallelize(2, block_x)
`},
	// A whole split runs also over a merged axis of nothing, and no index is divided by 0 there.
	{"whole split of nothing", `%0 = tensor i64 [-1] contiguity=[yes]
%1 = neg %0
output %1
`, [][]int64{{0}}, `tv1.split(0, 4, False)
tv1.merge(0, 1)
tv1.split_whole(0, 1)
`},
	// A vector of what a reduction keeps in a wider type is rounded element by element on its way
	// to registers.
	{"vector of sums that are kept in a wider type", `%0 = tensor bf16 [2, 8] contiguity=[yes, yes]
%1 = sum %0 dims=[0] keepdim=false dtype=bf16
%2 = cast %1 dtype=f32
output %2
`, [][]int64{{2, 8}}, `tv3 = tv1.cache_before()
tv2.split(0, 2)
transform_like(tv2)
tv1.parallelize(-1, vectorize)
tv3.set_memory_type(shared)
`},
	// Positions that are compared begin with any constant, as those from true on do.
	{"positions from a condition on", `%0 = tensor i64 [5] contiguity=[yes]
%1 = iota length=5 start=true step=1:i64 dtype=i64
%2 = lt %1, 3:i64
%3 = where %2, %0, 7:i64
output %3
`, [][]int64{{5}}, "inline_most()\n"},
	// Copies of a pipeline past its last tile land on elements of what lies there after it, that
	// nothing writes and that are read in vain.
	{"copies that run ahead into what comes after", `%0 = tensor f64 [3, 61] contiguity=[yes, yes]
%1 = neg %0
%2 = neg %1
%3 = neg %2
%4 = neg %3
%5 = neg %4
output %5
`, [][]int64{{3, 61}}, `tv6 = tv0.cache_after(cp_async)
tv6.set_memory_type(shared)
tv5.split(1, 7)
tv5.split(0, 5)
transform_like(tv5)
inline_at(tv6, 2, False, [tv6])
tv1.set_memory_type(shared)
tv2.set_memory_type(shared)
tv3.set_memory_type(shared)
tv4.set_memory_type(shared)
tv3.parallelize(1, block_x)
tv1.set_allocation_domain([tv1.logical[0], tv1.logical[1]], True)
tv6.circular_buffer(3, 1)
`},
	// A copy under way is waited for before the next one to its place, also if nothing reads it.
	{"asynchronous copies that nothing reads", `%0 = tensor i32 [7, 5, 1] contiguity=[yes, yes, none]
%1 = tensor i32 [7, 17, 8] contiguity=[yes, yes, yes]
%2 = tensor i32 [7, 16, 0] contiguity=[yes, yes, yes]
%3 = scatter %2, %0, %1 dim=2
output %3
`, [][]int64{{7, 5, 1}, {7, 17, 8}, {7, 16, 0}}, `tv4 = tv1.cache_after(cp_async)
tv4.set_memory_type(shared)
inline_at(tv4, 1, False, [tv4])
`},
	// Iterations of copies to elements that are not known to differ wait for each other; the last one, a loop of its own,
	// closes its group as those do that read what they wait for.
	{"group of a last iteration that waits and copies", `%0 = tensor i32 [33, 6] contiguity=[yes, yes]
%1 = tensor i32 [33, 7] contiguity=[no, yes]
%2 = take_along_axis %0, %1 dim=1
output %2
`, [][]int64{{33, 6}, {33, 7}}, `tv3 = tv1.cache_after(cp_async)
tv3.set_memory_type(shared)
tv2.merge(0, 1)
tv2.split(0, 4, False)
transform_like(tv2, [tv1, tv3, tv0])
tv3.set_allocation_domain([tv3.logical[1], tv3.logical[0]], True)
`},
}

func TestRegressions(t *testing.T) {
	for _, x := range regressions {
		t.Run(x.name, func(t *testing.T) {
			s := parsed(t, x.text)
			f := frozen(s)
			script, err := schedule.ParseScript(x.script)
			require.NoError(t, err)
			require.NoError(t, s.Run(script))
			k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, x.sizes...), Options{Cooperative: true, Alignment: func(core.ValID) int { return 16 }})
			require.NoError(t, err, "%v\n%v", s, k)
		})
	}
}

// TestOverwrittenByOneBlock refuses to overwrite in one block what all blocks of a reduction
// across blocks read: that a block has counted itself does not tell that others have read.
func TestOverwrittenByOneBlock(t *testing.T) {
	s := parsed(t, `%0 = tensor f32 [-1, 8] contiguity=[yes, yes]
%1 = tensor f32 [1, 1] contiguity=[none, none]
%2 = mul %0, %1
%3 = sum %2 dims=[0] keepdim=false dtype=f32
%4 = neg %1
output %3
output %4 alias %1
`)
	script, err := schedule.ParseScript("tv3.parallelize(0, grid_x)\ntv3.parallelize(1, block_x)\ntv5 = tv1.cache_after()\ntransform_like(tv3)\nparallelize_like(tv3)\n")
	require.NoError(t, err)
	require.NoError(t, s.Run(script))
	_, err = lowered(s, Options{Cooperative: true})
	var refused *core.Unsupported
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "alias", refused.Refusals[0].Rule, "%v", err)
}

// TestOverwrittenAtOtherPlaces refuses to overwrite in a loop what later iterations of it
// read, also where they read ahead.
func TestOverwrittenAtOtherPlaces(t *testing.T) {
	for _, ahead := range []string{"", "tv2.circular_buffer(2, 1)\n"} {
		s := parsed(t, "%0 = tensor f32 [3, 3] contiguity=[yes, yes]\n%1 = permute %0 dims=[1, 0]\noutput %1 alias %0\n")
		script, err := schedule.ParseScript("tv2 = tv0.cache_after()\ntv1.reorder({1: 0})\ninline_at(tv2, 1, False, [tv2])\n" + ahead)
		require.NoError(t, err)
		require.NoError(t, s.Run(script))
		_, err = lowered(s, Options{})
		var refused *core.Unsupported
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "alias", refused.Refusals[0].Rule, "%v", err)
	}
}

// TestCopyOfOverwritten refuses to overwrite an input that an asynchronous copy, which
// nothing waits for before, may still read.
func TestCopyOfOverwritten(t *testing.T) {
	const text = `%0 = tensor i64 [33, 3] contiguity=[yes, yes]
%1 = tensor i64 [33, 3] contiguity=[yes, yes]
%2 = neg %1
%3 = add %0, %2
output %2 alias %0
output %3
`
	for cache, isRefused := range map[string]bool{"tv0.cache_after()": false, "tv0.cache_after(cp_async)": true} {
		s := parsed(t, text)
		f := frozen(s)
		script, err := schedule.ParseScript("tv4 = " + cache + "\ntv4.set_memory_type(shared)\ninline_at(tv2, 2, False, [tv2])\ninline_at(tv4, 2, False, [tv4])\n")
		require.NoError(t, err)
		require.NoError(t, s.Run(script))
		k, err := checkWith(s, f, fusionfuzz.Inputs(f, 7, []int64{33, 3}, []int64{33, 3}), Options{})
		if !isRefused {
			require.NoError(t, err, "%v\n%v", s, k)
			continue
		}
		var refused *core.Unsupported
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "alias", refused.Refusals[0].Rule)
	}
}

// TestLoopsOfWholeSplitsOfNothing refuses to compute in loops that have iterations and no element
// what is needed outside of them, as in loops without an iteration.
func TestLoopsOfWholeSplitsOfNothing(t *testing.T) {
	for _, split := range []string{"split", "split_whole"} {
		s := parsed(t, `%0 = tensor i64 [4, 0] contiguity=[no, yes]
%1 = tensor i64 [4] contiguity=[yes]
%2 = broadcast %1 is_broadcast_dim=[false, true]
%3 = mul %0, %2
%4 = neg %2
output %3
output %4
`)
		script, err := schedule.ParseScript("tv4.merge(0, 1)\ntv4." + split + "(0, 6)\ntransform_like(tv4)\ninline_at(tv2, 2, False, [tv2])\n")
		require.NoError(t, err)
		require.NoError(t, s.Run(script))
		_, err = lowered(s, Options{})
		var refused *core.Unsupported
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "empty loop", refused.Refusals[0].Rule, "%v", err)
	}
}
