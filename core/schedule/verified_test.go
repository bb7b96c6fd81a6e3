package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"nvfuser_go/core"
)

// TestVerifiedMapping: what a schedule is verified with is the mapping that is asked
// for next, unless it was changed, by each kind of call.
func TestVerifiedMapping(t *testing.T) {
	const text = "%0 = tensor f32 [64, 32] contiguity=[yes, yes]\n%1 = set %0\n%2 = neg %1\n%3 = sum %2 dims=[1] keepdim=false dtype=f32\n" +
		"%4 = broadcast %3 is_broadcast_dim=[false, true]\n%5 = mul %4, %2\noutput %5\n"
	changes := map[string]func(s *Scheduled) error{
		"split":       func(s *Scheduled) error { return s.Split(tv(s, 1), 0, 4, true) },
		"merge":       func(s *Scheduled) error { return s.Merge(tv(s, 1), 0, 1) },
		"reorder":     func(s *Scheduled) error { return s.Reorder(tv(s, 1), map[int]int{0: 1}) },
		"parallelize": func(s *Scheduled) error { return s.Parallelize(tv(s, 5), 0, BIDx) },
		"memory":      func(s *Scheduled) error { return s.SetMemory(tv(s, 1), Shared) },
		"allocation":  func(s *Scheduled) error { return s.SetAllocation(tv(s, 1), s.f.Val(tv(s, 1)).Domain.Logical, nil) },
		"contiguity": func(s *Scheduled) error {
			return s.SetAllocation(tv(s, 1), s.f.Val(tv(s, 1)).Domain.Logical, []core.Tri{core.No, core.Yes})
		},
		"copy":         func(s *Scheduled) error { return s.SetCopy(tv(s, 1), AsyncCopy, CacheUnspecified) },
		"hint":         func(s *Scheduled) error { return s.SetCopy(tv(s, 1), PlainCopy, CacheStreaming) },
		"buffering":    func(s *Scheduled) error { return s.SetBuffering(tv(s, 1), 3, 1) },
		"inline":       func(s *Scheduled) error { return s.InlineMost(nil, nil) },
		"cache_after":  func(s *Scheduled) error { _, err := s.CacheAfter(tv(s, 0), nil); return err },
		"cache_before": func(s *Scheduled) error { _, err := s.CacheBefore(tv(s, 5)); return err },
		"rfactor":      func(s *Scheduled) error { _, err := s.RFactor(tv(s, 3), []int{1}); return err },
		"swizzle": func(s *Scheduled) error {
			if err := s.SetMemory(tv(s, 1), Shared); err != nil {
				return err
			}
			return s.SetAllocation(tv(s, 1), s.f.Val(tv(s, 1)).Domain.Logical, nil)
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			s := parsed(t, text)
			if name == "rfactor" {
				require.NoError(t, s.Split(tv(s, 3), 1, 4, true))
			}
			m := done[*Mapping](t)(s.Verified())
			require.NotSame(t, m, done[*Mapping](t)(Map(s.Clone())))
			require.Same(t, m, done[*Mapping](t)(Map(s)))
			require.NotSame(t, m, done[*Mapping](t)(Map(s)), "it is one's own")
			m = done[*Mapping](t)(s.Verified())
			require.NoError(t, change(s))
			if name == "swizzle" {
				require.NoError(t, s.Verify())
				m = s.verified
				require.NoError(t, s.SwizzleXOR(tv(s, 1), 0, 1))
			}
			again, err := Map(s)
			require.True(t, err != nil || again != m)
			fresh, err2 := Map(s.Clone())
			require.Equal(t, err == nil, err2 == nil)
			if err == nil {
				require.Equal(t, fresh.LoopClasses(), again.LoopClasses())
			}
		})
	}
}
