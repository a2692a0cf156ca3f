// Package must ends a test whose preparation fails. It does not compare values: what a test is
// about has a message of its own. It knows nothing of what is tested.
package must

// OK ends a test if err is not nil. t is a *testing.T, a *testing.B, or a *rapid.T.
func OK(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
