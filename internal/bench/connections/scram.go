package connections

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// mechanism is the only one that a user logs in with (RFC 5802, with SHA-512).
const mechanism = "SCRAM-SHA-512"

// maxIterations bounds what a broker may make this client compute.
const maxIterations = 1 << 20

var errScram = errors.New("the broker's message of the login is malformed")

// user logs in. It keeps the keys of the last salt, so that the client computes them once for all
// connections. It is safe for concurrent use.
type user struct {
	name, password string

	mu         sync.Mutex
	salt       string
	iterations int
	keys       keys
}

// keys are derived from the password, the salt and the iterations.
type keys struct{ client, stored, server []byte }

func newUser(name, password string) *user { return &user{name: name, password: password} }

// exchange is one login.
type exchange struct {
	user  *user
	bare  string // the first message without its header
	nonce string
	proof string // what the server's last message must be
}

// first returns the first message of a login.
func (u *user) first() (*exchange, string) {
	nonce := rand.Text()
	name := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(u.name)
	e := &exchange{user: u, nonce: nonce, bare: "n=" + name + ",r=" + nonce}
	return e, "n,," + e.bare
}

// final returns the answer to the server's first message.
func (e *exchange) final(server string) (string, error) {
	fields := strings.Split(server, ",")
	if len(fields) < 3 || !strings.HasPrefix(fields[0], "r="+e.nonce) || !strings.HasPrefix(fields[1], "s=") ||
		!strings.HasPrefix(fields[2], "i=") {
		return "", errScram
	}
	salt, err := base64.StdEncoding.DecodeString(fields[1][2:])
	if err != nil {
		return "", fmt.Errorf("%w: salt: %w", errScram, err)
	}
	n, err := strconv.Atoi(fields[2][2:])
	if err != nil || n < 1 || n > maxIterations {
		return "", fmt.Errorf("%w: %q iterations", errScram, fields[2][2:])
	}
	k, err := e.user.derive(string(salt), n)
	if err != nil {
		return "", err
	}
	without := "c=biws," + fields[0] // biws is the header n,, in base64
	message := []byte(e.bare + "," + server + "," + without)
	proof := sum(k.stored, message)
	subtle.XORBytes(proof, proof, k.client)
	e.proof = "v=" + base64.StdEncoding.EncodeToString(sum(k.server, message))
	return without + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

// verify checks the server's last message: the broker knows the user's key, too.
func (e *exchange) verify(server string) error {
	if subtle.ConstantTimeCompare([]byte(server), []byte(e.proof)) != 1 {
		return fmt.Errorf("%w: it does not prove that the broker knows the user", errScram)
	}
	return nil
}

// derive returns the keys for a salt.
func (u *user) derive(salt string, iterations int) (keys, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.iterations == iterations && u.salt == salt {
		return u.keys, nil
	}
	salted, err := pbkdf2.Key(sha512.New, u.password, []byte(salt), iterations, sha512.Size)
	if err != nil {
		return keys{}, fmt.Errorf("derive the key of a password: %w", err)
	}
	client := sum(salted, []byte("Client Key"))
	stored := sha512.Sum512(client)
	u.salt, u.iterations = salt, iterations
	u.keys = keys{client: client, stored: stored[:], server: sum(salted, []byte("Server Key"))}
	return u.keys, nil
}

func sum(key, message []byte) []byte {
	h := hmac.New(sha512.New, key)
	h.Write(message)
	return h.Sum(nil)
}
