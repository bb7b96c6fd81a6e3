package core

import "nvfuser_go/core/scalar"

// isOne reports whether s is the constant 1.
func (f *Fusion) isOne(s scalar.ID) bool {
	n, ok := f.scalars.ConstInt(s)
	return ok && n == 1
}

// kindOfSize is the kind of an axis of computed size e. A size known to be 1
// broadcasts, as in the definition of an input, and one that may turn out to be
// 1 is not known; a symbolic dimension of an input is Iter whatever its size.
func (f *Fusion) kindOfSize(e scalar.ID) AxisKind {
	switch {
	case f.isOne(e):
		return Broadcast
	case !f.scalars.Facts(e).Hold(1):
		return Iter
	case f.scalars.Op(e) == scalar.Symbol && f.scalars.Tag(e).Dim >= 0:
		return Iter
	}
	return Symbolic
}

// sizeAxis makes a root axis of computed size e.
func (f *Fusion) sizeAxis(e scalar.ID) AxisID {
	a := f.iterAxis(e)
	f.axes[a].Kind = f.kindOfSize(e)
	return a
}

// shownAxis makes a broadcast root axis that shows size e.
func (f *Fusion) shownAxis(e scalar.ID) AxisID {
	if f.isOne(e) {
		e = scalar.None
	}
	return f.broadcastAxis(e)
}

// realAxis makes a root axis that runs over the elements that a shows, and so
// resolves a broadcast.
func (f *Fusion) realAxis(a AxisID) AxisID {
	if f.axes[a].Kind == Broadcast {
		return f.iterAxis(f.Size(a))
	}
	return f.copyAxis(a)
}

// derived makes an axis of size e that transform t makes.
func (f *Fusion) derived(t TransformID, e scalar.ID) AxisID {
	return f.newAxis(Axis{Extent: e, Expanded: scalar.None, Kind: f.kindOfSize(e), Def: t})
}

func (f *Fusion) newTransform(t Transform) TransformID {
	f.transforms = append(f.transforms, t)
	return TransformID(len(f.transforms) - 1)
}

// mergeAxes returns the axis of extent e over all pairs of outer and inner.
func (f *Fusion) mergeAxes(outer, inner AxisID, e scalar.ID) AxisID {
	t := f.newTransform(Transform{Kind: Merge, In: [2]AxisID{outer, inner}, Factor: scalar.None, Left: scalar.None, Right: scalar.None})
	out := f.derived(t, e)
	f.transforms[t].Out = [2]AxisID{out, NoAxis}
	return out
}

// splitAxis divides a into an outer axis of extent e and an inner one of extent
// factor; a has e*factor elements.
func (f *Fusion) splitAxis(a AxisID, e, factor scalar.ID) (outer, inner AxisID) {
	t := f.newTransform(Transform{Kind: Split, In: [2]AxisID{a, NoAxis}, Factor: factor, Inner: true, Left: scalar.None, Right: scalar.None})
	outer, inner = f.derived(t, e), f.derived(t, factor)
	f.transforms[t].Out = [2]AxisID{outer, inner}
	return outer, inner
}

// resizeAxis puts left elements before a and right ones after it, which makes
// extent e; negative amounts take elements away.
func (f *Fusion) resizeAxis(a AxisID, left, right, e scalar.ID) AxisID {
	t := f.newTransform(Transform{Kind: ResizeAxis, In: [2]AxisID{a, NoAxis}, Factor: scalar.None, Left: left, Right: right})
	out := f.derived(t, e)
	f.transforms[t].Out = [2]AxisID{out, NoAxis}
	return out
}
