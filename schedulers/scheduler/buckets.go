package scheduler

import "slices"

// Buckets are the numbers of steps of a thread that kernels are made for, in ascending order:
// what takes similar numbers shares one.
type Buckets []int64

// Of returns the least bucket of steps or more, or the greatest of all.
func (b Buckets) Of(steps int64) int64 {
	at, _ := slices.BinarySearch(b, steps)
	return b[min(at, len(b)-1)]
}

// Below returns the bucket before one: what has that one needs more steps than Below. It
// is 0 of the first, and of what is no bucket.
func (b Buckets) Below(bucket int64) int64 {
	at, isBucket := slices.BinarySearch(b, bucket)
	if at == 0 || !isBucket {
		return 0
	}
	return b[at-1]
}
