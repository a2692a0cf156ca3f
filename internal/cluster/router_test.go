package cluster

import (
	"testing"

	"github.com/chronik-io/chronik/internal/membership"
)

// Heartbeats wait for no other request, and no request that may be slow is like them: what is
// urgent is handled by the goroutine that reads the connection.
func TestHeartbeatsWaitForNoOtherRequest(t *testing.T) {
	for method := range uint16(256) {
		if urgent(method) != (method == membership.MethodHeartbeat) {
			t.Errorf("method %d is urgent: %t", method, urgent(method))
		}
	}
}
