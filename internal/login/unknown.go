package login

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/sorts"
)

// shape is what a client sees of a credential, or can measure, before it has logged in.
type shape struct {
	mechanism  metadata.ScramMechanism
	iterations int32
	salt       int  // its length
	text       bool // the salt has letters and digits only, as Kafka's tools make it
}

// userShape is the shapes of all credentials of a user, by ascending mechanism: PLAIN tries them
// all. A shape without iterations stands for none.
type userShape [2]shape

// shapeCount is how many users have credentials of one shape: a userShape for PLAIN, and one with
// only its first entry for SCRAM.
type shapeCount struct {
	userShape
	n int
}

// shapes are the shapes of the existing users' credentials. Those of users that don't exist have
// the same shapes, as often: with a shape of their own they would show that the others exist.
type shapes struct {
	scram map[metadata.ScramMechanism][]shapeCount // of the credentials for one mechanism
	plain []shapeCount                             // of all that a user has
	names map[metadata.ScramMechanism][]string     // of the users that have a credential
}

// census counts the shapes of all users as they change, in a time that depends on the change. Only
// Follow uses it.
type census struct {
	scram map[metadata.ScramMechanism]map[userShape]int
	plain map[userShape]int
	names map[metadata.ScramMechanism][]string // what readers of shapes have seen of them is never overwritten
}

func newCensus() *census {
	return &census{scram: map[metadata.ScramMechanism]map[userShape]int{metadata.ScramSHA256: {}, metadata.ScramSHA512: {}},
		plain: map[userShape]int{}, names: map[metadata.ScramMechanism][]string{}}
}

// change takes the difference of two images in some users, in ascending order. Only the removal of
// users takes a time that grows with the number of all, by some nanoseconds for each.
func (c *census) change(prev, next *metadata.Image, users []string) *shapes {
	gone := map[metadata.ScramMechanism]map[string]bool{}
	for i, name := range users {
		if i > 0 && name == users[i-1] { // changed twice
			continue
		}
		before, after := prev.User(name), next.User(name)
		c.count(before, -1)
		c.count(after, 1)
		for m := range c.scram {
			switch had, has := before.Credential(m) != nil, after.Credential(m) != nil; {
			case has && !had:
				c.names[m] = append(c.names[m], name)
			case had && !has:
				if gone[m] == nil {
					gone[m] = map[string]bool{}
				}
				gone[m][name] = true
			}
		}
	}
	for m, names := range gone {
		c.names[m] = slices.DeleteFunc(slices.Clone(c.names[m]), func(name string) bool { return names[name] })
	}
	s := &shapes{scram: map[metadata.ScramMechanism][]shapeCount{}, plain: counts(c.plain), names: maps.Clone(c.names)}
	for m, count := range c.scram {
		s.scram[m] = counts(count)
	}
	return s
}

// count adds n users that are like u; nil is like none.
func (c *census) count(u *metadata.User, n int) {
	if u == nil {
		return
	}
	add := func(to map[userShape]int, s userShape) {
		if to[s] += n; to[s] == 0 {
			delete(to, s)
		}
	}
	var all userShape
	for i, x := range u.Credentials {
		all[i] = shape{x.Mechanism, x.Iterations, x.Salt.Len(), isText(x.Salt.Bytes())}
		add(c.scram[x.Mechanism], userShape{all[i]})
	}
	add(c.plain, all)
}

// counts returns the counts in an order that is the same on all brokers.
func counts(of map[userShape]int) []shapeCount {
	list := make([]shapeCount, 0, len(of))
	for s, n := range of {
		list = append(list, shapeCount{s, n})
	}
	sorts.Sort(list, func(a, b shapeCount) int {
		return cmp.Or(compareShapes(a.userShape[0], b.userShape[0]), compareShapes(a.userShape[1], b.userShape[1]))
	})
	return list
}

func compareShapes(a, b shape) int {
	return cmp.Or(cmp.Compare(a.mechanism, b.mechanism), cmp.Compare(a.iterations, b.iterations), cmp.Compare(a.salt, b.salt),
		compareBool(a.text, b.text))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func isText(salt []byte) bool {
	return !slices.ContainsFunc(salt, func(b byte) bool { return (b < '0' || b > '9') && (b < 'a' || b > 'z') })
}

// pick selects a shape with a number that is random but always the same for one user, or else.
func pick(of []shapeCount, random uint64, otherwise userShape) userShape {
	total := 0
	for _, s := range of {
		total += s.n
	}
	if total == 0 {
		return otherwise
	}
	// The most significant bits decide, so that one more user changes few of the others.
	at := int(random >> 33 * uint64(total) >> 31)
	for _, s := range of {
		if at -= s.n; at < 0 {
			return s.userShape
		}
	}
	return otherwise
}

// unknownScram returns a credential for a user that has none. No password belongs to it.
func (l *Logins) unknownScram(user string, m metadata.ScramMechanism) *metadata.Credential {
	return &l.fakes(user, l.shapes.Load().scram[m], m)[0]
}

// credential returns the credential of a user for SCRAM; exists is false if it is one that no
// password fits. What is stored of a user is in memory that was not used lately. To read it takes
// some 0.5 µs, which 10,000 answers show. So two users are read always: of a name without a
// credential, two others. read has no meaning; it makes the compiler read them.
func (l *Logins) credential(user string, m metadata.ScramMechanism) (c metadata.Credential, exists bool, read byte) {
	image, names := l.image.Load(), l.shapes.Load().names[m]
	c = *l.unknownScram(user, m)
	absent := user + "\x00" // which no user is called
	first, second := absent, absent
	own := image.User(user).Credential(m)
	if random := maphash.String(l.seed, user); len(names) > 0 {
		first = names[random%uint64(len(names))]
		if own == nil {
			second = names[random>>32%uint64(len(names))]
		}
	}
	one, other := image.User(first).Credential(m), image.User(second).Credential(m)
	if own != nil {
		c, other = *own, own
	}
	return c, own != nil, touch(one) ^ touch(other)
}

// touch reads the parts of a credential.
func touch(c *metadata.Credential) (read byte) {
	if c != nil {
		for _, part := range [][]byte{c.Salt.Bytes(), c.StoredKey.Bytes(), c.ServerKey.Bytes()} {
			read ^= part[0] ^ part[len(part)-1]
		}
	}
	return read
}

// unknownPlain returns as many credentials as users have, for PLAIN.
func (l *Logins) unknownPlain(user string) []metadata.Credential {
	return l.fakes(user, l.shapes.Load().plain, metadata.ScramSHA256, metadata.ScramSHA512)
}

// fakes returns credentials of one of the shapes. If there are none, they are those of new users.
func (l *Logins) fakes(user string, of []shapeCount, mechanisms ...metadata.ScramMechanism) (all []metadata.Credential) {
	image := l.image.Load()
	var otherwise userShape
	purpose := "shape"
	for i, m := range mechanisms {
		otherwise[i], purpose = shape{m, DefaultIterations, saltSize, false}, purpose+" "+m.String()
	}
	for _, s := range pick(of, binary.BigEndian.Uint64(derive(image, purpose, user)), otherwise) {
		if s.iterations > 0 {
			all = append(all, fake(image, user, s))
		}
	}
	return all
}

func fake(image *metadata.Image, user string, s shape) metadata.Credential {
	salt := make([]byte, 0, s.salt+sha256.Size)
	for i := byte('0'); len(salt) < s.salt; i++ {
		salt = append(salt, derive(image, "salt "+s.mechanism.String()+" "+string(i), user)...)
	}
	salt = salt[:s.salt]
	if s.text {
		for i, b := range salt {
			salt[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[b%36]
		}
	}
	// No password is known that has these keys. They are never shown.
	size := hashOf(s.mechanism)().Size()
	key := slices.Repeat(derive(image, "key", user), size/sha256.Size)
	return metadata.Credential{Mechanism: s.mechanism, Iterations: s.iterations, Salt: secret.New(salt), StoredKey: secret.New(key),
		ServerKey: secret.New(key)}
}
