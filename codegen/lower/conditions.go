package lower

import (
	"nvfuser_go/codegen/kir"
	"nvfuser_go/core"
	"nvfuser_go/core/scalar"
	"nvfuser_go/core/schedule"
)

// Conditions are what a kernel relies on beside its schedule: all answers that lowering
// got from its [Options], and what followed from them. Where they hold for other
// answers, lowering makes the same kernel.
type Conditions struct {
	promises  []promise
	addresses []address
	indices   indices
	narrow    bool // the indices fit in 32 bits
}

// A promise is what was promised of an integer.
type promise struct {
	of    kir.HostValue
	facts scalar.Facts
}

// An address is what is known of that of a tensor.
type address struct {
	of    core.ValID
	known schedule.Alignment
}

// Hold reports whether lowering the schedule with o makes the kernel that c is of: o
// differs from the options that it was made with in Value, Promise and Alignment
// alone. It looks at the kernel's table: two calls must not be at one time.
func (c *Conditions) Hold(o Options) bool {
	for _, p := range c.promises {
		if o.Promise(p.of) != p.facts {
			return false
		}
	}
	for _, a := range c.addresses {
		if schedule.Alignment(o.Alignment(a.of)) != a.known {
			return false
		}
	}
	return c.indices.fit(o.Value) == c.narrow
}
