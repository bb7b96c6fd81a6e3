package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The two forms that users see.
func TestPythonAndMath(t *testing.T) {
	f, err := Parse(example)
	require.NoError(t, err)
	require.Equal(t, `def f(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[-1, 4], contiguity=[True, True], dtype=DataType.Float, is_cpu=False)
    tv1 = fd.define_tensor(shape=[1, 4], contiguity=[True, None], dtype=DataType.BFloat16, is_cpu=False, stride_order=[0, 1])
    c6 = fd.define_scalar(None, dtype=DataType.Double)
    c7 = fd.define_scalar(None, dtype=DataType.Int)
    tv2 = fd.ops.cast(tv1, dtype=DataType.Float)
    tv3 = fd.ops.add(tv0, tv2)
    tv4 = fd.ops.add(tv3, 0.100000)
    tv5 = fd.ops.broadcast(tv4, is_broadcast_dim=[False, False, True])
    c0 = fd.ops.size(tv0, dim=0)
    c8 = fd.ops.cast(c7, dtype=DataType.Index)
    c9 = fd.ops.mul(c8, 4)
    c10 = fd.ops.add(c0, c9)
    tv6 = fd.ops.expand(tv5, shape=[c0, 4, c10])
    tv7 = fd.ops.add(tv3, c6)
    fd.add_output(tv6)
    fd.add_output(tv7, tv0)
`, f.Python("f"))
	require.Equal(t, `Inputs:
  T0_g_float[iS0{i0}, iS1{4}]
  T1_g___bfloat[bS2{1}, iS3{4}]
  d6
  i7
Outputs:
  T6_g_float[iS13{i0}, iS14{4}, bS15{1 ex i0 + i7*4}]
  T7_g_float[iS16{i0}, iS17{4}]

%kernel_math {
T2_l_float[bS4{1}, iS5{4}]
   = cast( T1_g___bfloat[bS2{1}, iS3{4}], dtype = float )
T3_l_float[iS6{i0}, iS7{4}]
   = T0_g_float[iS0{i0}, iS1{4}]
   + T2_l_float[bS4{1}, iS5{4}];
T4_l_float[iS8{i0}, iS9{4}]
   = T3_l_float[iS6{i0}, iS7{4}]
   + double(0.1);
T5_l_float[iS10{i0}, iS11{4}, bS12{1}]
   = broadcast( T4_l_float[iS8{i0}, iS9{4}], flags = {false, false, true} )
T6_g_float[iS13{i0}, iS14{4}, bS15{1 ex i0 + i7*4}] = expand( T5_l_float[iS10{i0}, iS11{4}, bS12{1}] )
T7_g_float[iS16{i0}, iS17{4}]
   = T3_l_float[iS6{i0}, iS7{4}]
   + d6;
} // %kernel_math 

`, f.Math(true))
}

// What the algebra knows and no row makes in one call.
func TestPythonScalars(t *testing.T) {
	f, err := Parse(`$0 = scalar i64
$1 = scalar index
$2 = i.floordiv $0, 3:i64 : i64
$3 = i.lt $0, 3:i64 : bool
$4 = i.select $3, false, true : bool
$5 = cast $1 : i64
$6 = cast $1 : index
$7 = i.select $3, 4, 5 : index
$8 = i.add 9223372036854775807, 1 : index
$9 = i.mul $1, 9223372036854775807 : index
$10 = i.mul $9, 3 : index
$11 = i.floordiv $10, $8 : index
%0 = full shape=[$6, $7, $11] fill_value=$2 dtype=f32
%1 = full shape=[] fill_value=$4 dtype=bool
output %0
output %1
`)
	require.NoError(t, err)
	require.Equal(t, `def f(fd : FusionDefinition) -> None :
    c0 = fd.define_scalar(None, dtype=DataType.Int)
    c1 = fd.define_scalar(None, dtype=DataType.Index)
    c2 = fd.ops.cast(c1, dtype=DataType.Int)
    c3 = fd.ops.cast(c2, dtype=DataType.Index)
    c4 = fd.ops.cast(c0, dtype=DataType.Index)
    c5 = fd.ops.lt(c4, 3)
    c6 = fd.ops.where(c5, 4, 5)
    c7 = fd.ops.cast(c6, dtype=DataType.Index)
    c8 = fd.define_scalar(9223372036854775807, dtype=DataType.Index)
    c9 = fd.define_scalar(3, dtype=DataType.Index)
    c10 = fd.ops.mul(c8, c9)
    c11 = fd.ops.mul(c10, c1)
    c12 = fd.define_scalar(1, dtype=DataType.Index)
    c13 = fd.ops.add(c12, c8)
    c14 = fd.ops.remainder(c11, c13)
    c15 = fd.ops.sub(c11, c14)
    c16 = fd.ops.div(c15, c13)
    c17 = fd.ops.remainder(c0, 3)
    c18 = fd.ops.sub(c0, c17)
    c19 = fd.ops.div(c18, 3)
    tv0 = fd.ops.full(shape=[c3, c7, c16], fill_value=c19, dtype=DataType.Float)
    c20 = fd.ops.lt(2, c4)
    tv1 = fd.ops.full(shape=[], fill_value=c20, dtype=DataType.Bool)
    fd.add_output(tv0)
    fd.add_output(tv1)
`, f.Python("f"))
	g, err := Parse(f.String())
	require.NoError(t, err)
	require.Equal(t, f.String(), g.String())
}
