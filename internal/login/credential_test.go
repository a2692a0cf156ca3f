package login

import (
	"strings"
	"testing"
)

func TestMalformedFilesOfUsersAreRefused(t *testing.T) {
	for _, text := range []string{"", "# none\n", "admin", "admin:secret-word", "admin:SCRAM-SHA-1:secret-word", "admin:SCRAM-SHA-512:",
		":SCRAM-SHA-512:secret-word", "a:SCRAM-SHA-512:x\na:SCRAM-SHA-512:secret-word", "a\x01:SCRAM-SHA-512:secret-word"} {
		if users, err := ParseUsers(text); err == nil || len(users) > 0 {
			t.Errorf("%q: %v", text, users)
		} else if strings.Contains(err.Error(), "secret-word") || !strings.Contains(err.Error(), "NAME:SCRAM-SHA-512:PASSWORD") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
