package cuda

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"nvfuser_go/core"
)

// taken are the identifiers that a kernel's text may not give another meaning:
// keywords, types and variables of C++ and CUDA, macros of their headers, and
// every function that an op's text or a device function calls.
var taken = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range strings.Fields(`
		alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
		const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false
		float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
		protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
		template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
		while xor xor_eq
		blockDim blockIdx gridDim threadIdx warpSize dim3 int2 int4 uint2 uint4 float2 float4
		Half BFloat16 Float8E4M3 Float8E5M2 Float8E8M0 Complex Words InverseSine
		EOF INFINITY NAN NULL HUGE_VAL HUGE_VALF M_PI assert errno host linux offsetof stderr stdin stdout unix
		p shared`) {
		names[name] = true
	}
	add := func(text string) {
		for _, name := range functionNames(text) {
			names[name] = true
		}
	}
	for _, s := range sections {
		add(s.text)
	}
	for _, op := range core.Ops() {
		c := &op.CUDA
		add(strings.Join([]string{c.F32, c.F64, c.Int, c.UInt, c.Bool, c.C64, c.C128}, " "))
	}
	return names
}()

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// identifier returns name as an identifier of C++ that is free to use. Other
// characters become "_"; reserved are names with two underscores in a row, or
// with one in front.
func identifier(name string) string {
	name = notInNames.ReplaceAllString(name, "_")
	for strings.Contains(name, "__") {
		name = strings.ReplaceAll(name, "__", "_")
	}
	name = strings.TrimLeft(name, "_")
	switch {
	case name == "":
		return "t"
	case name[0] >= '0' && name[0] <= '9':
		name = "t" + name
	}
	if taken[name] {
		return name + "_"
	}
	return name
}

// names gives identifiers of one kernel.
type names struct {
	used map[string]bool
	next map[string]int // the number to try for a name that is used
}

// unique returns an identifier like name that it has not returned before.
func (n *names) unique(name string) string {
	name = identifier(name)
	free := name
	for n.used[free] {
		n.next[name]++
		free = fmt.Sprintf("%s_%d", strings.TrimSuffix(name, "_"), n.next[name])
	}
	n.used[free] = true
	return free
}

// numbered returns the identifier of prefix and the least number from *next on
// that is free.
func (n *names) numbered(prefix string, next *int) string {
	for {
		name := prefix + strconv.Itoa(*next)
		*next++
		if !n.used[name] {
			n.used[name] = true
			return name
		}
	}
}
