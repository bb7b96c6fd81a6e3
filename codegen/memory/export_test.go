package memory

import "nvfuser_go/codegen/kir"

// Steps returns the work of planning a kernel.
func Steps(k *kir.Kernel) (int, error) {
	p, err := decide(k, Options{})
	if err != nil {
		return 0, err
	}
	return p.steps, nil
}
