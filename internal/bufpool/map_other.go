//go:build !linux

package bufpool

import "errors"

func mapMemory(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func shrinkMemory(mem []byte, _ int) []byte { return mem }

func unmapMemory([]byte) {}
