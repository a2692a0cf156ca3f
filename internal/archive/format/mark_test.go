package format

import (
	"testing"

	"github.com/chronik-io/chronik/internal/objects"
)

// The name of a mark is fixed, and no collection takes it for an object that it may delete.
func TestTheNameOfAMarkIsFixed(t *testing.T) {
	name := MarkName("c/", objects.Nonce{1, 15: 2})
	if name != "c/store/01000000000000000000000000000002" {
		t.Error(name)
	}
	if _, err := Parse(name[len("c/"):]); err == nil || objects.Unfinished(name) || objects.CheckName(name) != nil {
		t.Errorf("%v, %v", err, objects.CheckName(name))
	}
}
