package passes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"nvfuser_go/core"
)

// facts are the sections of a golden file that show what is said of a fusion.
var facts = map[string]func(*core.Fusion) string{
	"facts: views": func(f *core.Fusion) string {
		var b strings.Builder
		for _, v := range Views(f) {
			fmt.Fprintf(&b, "output %d is a view of %s", v.Output, f.Name(v.Base))
			if v.Reshapes {
				b.WriteString(", if strides can say the reshape")
			}
			b.WriteString("\n")
		}
		return orNone(b.String())
	},
	"facts: memory orders": func(f *core.Fusion) string {
		var b strings.Builder
		orders := MemoryOrders(f)
		for _, v := range slices.Sorted(maps.Keys(orders)) {
			fmt.Fprintf(&b, "%s %v\n", f.Name(v), orders[v])
		}
		return orNone(b.String())
	},
}

func orNone(s string) string {
	if s == "" {
		return "none\n"
	}
	return s
}
