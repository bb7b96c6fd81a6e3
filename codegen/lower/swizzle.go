package lower

import (
	"slices"

	"nvfuser_go/core"
	"nvfuser_go/core/schedule"
)

// canSwizzle reports whether the storage of v has the axes that its swizzles
// permute and are permuted by, so that who writes an element and who reads it
// find the same place.
func (a *Analysis) canSwizzle(v core.ValID) bool {
	axes := a.tensors[v].storage.axes
	return !slices.ContainsFunc(a.s.Swizzles(v), func(z schedule.Swizzle) bool {
		return !slices.Contains(axes, z.Row) || !slices.Contains(axes, z.Column)
	})
}

// swizzled returns the coordinates of an element of v in memory: column c of row
// r is in column c^(r % n), where n, a power of two, is the number of columns.
// Within a row this changes places two by two, so that each element has one, and
// what lies along axes inside of the column stays together.
func (l *lowering) swizzled(v core.ValID, coords []index) []index {
	zs := l.s.Swizzles(v)
	if len(zs) == 0 {
		return coords
	}
	coords, axes := slices.Clone(coords), l.tensors[v].storage.axes
	for _, z := range zs {
		row, column := slices.Index(axes, z.Row), slices.Index(axes, z.Column)
		coords[column] = l.t.Xor(coords[column], l.t.Mod(coords[row], l.extent(z.Column)))
	}
	return coords
}
