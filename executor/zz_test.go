package executor_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"testing"

	"nvfuser_go/core"
	"nvfuser_go/internal/fusionfuzz"
)

func TestZZ(t *testing.T) {
	if os.Getenv("ZZ") == "" {
		t.Skip()
	}
	seed, _ := strconv.Atoi(os.Getenv("ZZ"))
	n, _ := strconv.Atoi(os.Getenv("ZN"))
	r := rand.New(rand.NewPCG(uint64(seed), 2))
	count := map[string]int{}
	bind := 0
	for range n {
		data := make([]byte, 20+r.IntN(400))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		c := fusionfuzz.Decode(data)
		for _, id := range c.Fusion.Order() {
			count[c.Fusion.Expr(id).Op.Name]++
		}
		p := prepare(c)
		if _, err := c.Fusion.Eval(p.arrays, p.scalars, core.RandomState{Seed: 7, Offset: 16}); err != nil {
			bind++
		}
		t.Run("", func(t *testing.T) { checkCase(t, c) })
	}
	var names []string
	for k := range count {
		names = append(names, k)
	}
	sort.Slice(names, func(i, j int) bool { return count[names[i]] > count[names[j]] })
	fmt.Println("bind errors", bind)
	for _, k := range names {
		fmt.Print(k, ":", count[k], " ")
	}
	fmt.Println(len(names))
}
