//go:build race

package cuda

func init() { raceDetector = true }
