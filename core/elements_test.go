package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core/dtype"
)

func TestElementType(t *testing.T) {
	for _, test := range []struct {
		op       *OpInfo
		operands []dtype.Type
		want     dtype.Type
		problem  string
	}{
		{AddOp, []dtype.Type{dtype.Float, dtype.Float}, dtype.Float, ""},
		{AddOp, []dtype.Type{dtype.Float, dtype.Double}, 0, "x is Float and must be Double"},
		{AddOp, []dtype.Type{dtype.Half, dtype.Half}, 0, "does not compute in Half"},
		{AddOp, []dtype.Type{dtype.Float}, 0, "not an operation on 1 element"},
		{Lookup("lt"), []dtype.Type{dtype.Int, dtype.Int}, dtype.Bool, ""},
		{AbsOp, []dtype.Type{dtype.ComplexFloat}, dtype.Float, ""},
		{AbsOp, []dtype.Type{dtype.Half}, dtype.Half, ""},
		{WhereOp, []dtype.Type{dtype.Bool, dtype.Float, dtype.Float}, dtype.Float, ""},
		{WhereOp, []dtype.Type{dtype.Float, dtype.Float, dtype.Float}, 0, "cond is Float and must be Bool"},
		{CastOp, []dtype.Type{dtype.Half}, dtype.Null, ""},
		{Lookup("sin"), []dtype.Type{dtype.Int}, 0, "does not compute in Int"},
		{Lookup("sum"), []dtype.Type{dtype.Float}, 0, "not an operation"},
	} {
		got, err := test.op.ElementType(test.operands...)
		if test.problem != "" {
			require.ErrorContains(t, err, test.problem, test.op.Name)
			continue
		}
		require.NoError(t, err, test.op.Name)
		require.Equal(t, test.want, got, test.op.Name)
	}
}
