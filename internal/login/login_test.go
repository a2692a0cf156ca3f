package login

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	plainclient "github.com/twmb/franz-go/pkg/sasl/plain"
	scramclient "github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/secret"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// byPassword returns franz-go's clients of the mechanisms that use a password.
func byPassword(user, password string) []sasl.Mechanism {
	auth := scramclient.Auth{User: user, Pass: password}
	return []sasl.Mechanism{auth.AsSha256Mechanism(), auth.AsSha512Mechanism(), plainclient.Auth{User: user, Pass: password}.AsMechanism()}
}

func TestClientsLogIn(t *testing.T) {
	w := newWorld(t, Options{})
	names := []string{"bob", "a=b,c", "ö ü@example.com", strings.Repeat("n", metadata.MaxUserName)}
	for _, user := range names {
		w.set(user, "päss,w=rd")
	}
	for _, user := range names {
		for range 2 { // PLAIN remembers the second time
			for _, client := range byPassword(user, "päss,w=rd") {
				who, err := w.talk(client, "10.0.0.1")
				if err != nil {
					t.Errorf("%s as %s: %v", client.Name(), user, err)
				} else if who.Principal != "User:"+user || who.Mechanism != client.Name() || !who.Expires.IsZero() || who.Until == nil {
					t.Errorf("%s as %s: %+v", client.Name(), user, who)
				}
			}
		}
	}
}

// A wrong password, an unknown user and a user without that mechanism fail at the same step, the
// one that has the client's proof. The connection has one text for all failures.
func TestFailuresLookAlike(t *testing.T) {
	w := newWorld(t, Options{})
	w.set("bob", "right")
	w.set("only512", "right", metadata.ScramSHA512)
	w.set("only256", "right", metadata.ScramSHA256)
	for _, user := range []string{"bob", "nobody-has-this-name", "only512", "only256"} {
		for _, client := range byPassword(user, "wrong") {
			if who, err := w.talk(client, ""); err == nil {
				t.Errorf("%s as %s with a wrong password: %+v", client.Name(), user, who)
			}
			if proof := map[string]int{ScramSHA256: 2, ScramSHA512: 2, Plain: 1}[client.Name()]; w.steps != proof {
				t.Errorf("%s as %s fails at step %d, not %d", client.Name(), user, w.steps, proof)
			}
		}
	}
	auth := scramclient.Auth{User: "only512", Pass: "right"}
	if who, err := w.talk(auth.AsSha256Mechanism(), ""); err == nil {
		t.Errorf("a user logged in by a mechanism for which it has no password: %+v", who)
	}
	for _, user := range []string{"only512", "only256"} {
		if _, err := w.talk(plainclient.Auth{User: user, Pass: "right"}.AsMechanism(), ""); err != nil {
			t.Errorf("PLAIN as %s: %v", user, err)
		}
	}
}

// first returns the broker's first message of SCRAM without its nonce.
func (w *world) first(mechanism, user string) string {
	c, err := w.Begin(mechanism, "")
	if err != nil {
		w.Fatal(err)
	}
	out, who, err := c.Step([]byte("n,,n=" + user + ",r=nonce"))
	if err != nil || who != nil {
		w.Fatalf("%v %v", who, err)
	}
	_, rest, ok := strings.Cut(string(out), ",")
	if !ok {
		w.Fatalf("%q", out)
	}
	return rest
}

// A user that does not exist has a salt that is always the same, on all brokers and after a
// restart, differs from others, and is shaped like the salts of users that exist.
func TestUnknownUsersHaveSalts(t *testing.T) {
	w, other := newWorld(t, Options{}), newWorld(t, Options{})
	salts := map[string]bool{}
	for i := range 20 {
		user := fmt.Sprintf("user%d", i)
		salt := w.first(ScramSHA512, user)
		if salt != w.first(ScramSHA512, user) || salt != other.first(ScramSHA512, user) {
			t.Error("the salt of an unknown user changes")
		}
		if salt == w.first(ScramSHA256, user) || salts[salt] || !strings.HasSuffix(salt, ",i=8192") {
			t.Errorf("the salt is that of another user or mechanism: %s", salt)
		}
		salts[salt] = true
	}
	w.set("bob", "right")
	if a, b := w.first(ScramSHA512, "bob"), w.first(ScramSHA512, "user1"); len(a) != len(b) || !strings.HasSuffix(b, ",i=4096") {
		t.Errorf("an unknown user has %s, and a known one %s", b, a)
	}
	w.remove("bob")
	if salt := w.first(ScramSHA512, "bob"); len(salt) < 20 {
		t.Error(salt)
	}
}

// The shapes of unknown users are as frequent as those of known ones.
func TestUnknownUsersAreShapedLikeKnownOnes(t *testing.T) {
	w := newWorld(t, Options{})
	for i := range 4 {
		u := metadata.User{}
		c, err := NewCredential(metadata.ScramSHA256, secret.Of("x"), cheap)
		must.OK(t, err)
		if i == 0 {
			c.Iterations, c.Salt = 10_000, secret.Of("abcdefghij0123456789")
		}
		w.write(metadata.Event{Key: metadata.UserKey(fmt.Sprint("u", i)), Value: u.With(c).Encode()})
	}
	texts := 0
	for i := range 1000 {
		c := w.unknownScram(fmt.Sprint("x", i), metadata.ScramSHA256)
		if text := isText(c.Salt.Bytes()); text != (c.Iterations == 10_000) || text != (c.Salt.Len() == 20) {
			t.Fatalf("%d iterations, a salt of %d bytes, text=%v", c.Iterations, c.Salt.Len(), text)
		} else if text {
			texts++
		}
	}
	if texts < 150 || texts > 350 {
		t.Errorf("%d of 1000 unknown users have the shape of a quarter of the known ones", texts)
	}
}

// PLAIN takes the password of each mechanism, as SCRAM does. The session belongs to that
// credential, and ends with it.
func TestPlainTakesThePasswordOfEachMechanism(t *testing.T) {
	w := newWorld(t, Options{})
	u := metadata.User{Name: "bob"}
	for m, password := range map[metadata.ScramMechanism]string{metadata.ScramSHA256: "old", metadata.ScramSHA512: "new"} {
		c, err := NewCredential(m, secret.Of(password), cheap)
		must.OK(t, err)
		u = u.With(c)
	}
	w.write(metadata.Event{Key: metadata.UserKey("bob"), Value: u.Encode()})
	ended := map[string]bool{}
	for range 2 { // the second time they are remembered
		for _, password := range []string{"old", "new"} {
			who, err := w.talk(plainclient.Auth{User: "bob", Pass: password}.AsMechanism(), "")
			if err != nil {
				t.Fatalf("%s: %v", password, err)
			}
			who.Until(func() { ended[password] = true })
		}
	}
	if _, err := w.talk(plainclient.Auth{User: "bob", Pass: "other"}.AsMechanism(), ""); err == nil {
		t.Error("a wrong password")
	}
	w.write(metadata.Event{Key: metadata.UserKey("bob"), Value: u.Without(metadata.ScramSHA256).Encode()})
	if !ended["old"] || ended["new"] {
		t.Errorf("without the old password, the sessions of %v ended", ended)
	}
	if _, err := w.talk(plainclient.Auth{User: "bob", Pass: "old"}.AsMechanism(), ""); err == nil {
		t.Error("the former password")
	}
}

// PLAIN does as much work for a user that does not exist as for the others.
func TestUnknownUsersHaveAsManyCredentials(t *testing.T) {
	w := newWorld(t, Options{})
	if all := w.unknownPlain("x"); len(all) != 2 || all[0].Iterations != DefaultIterations || all[1].Mechanism != metadata.ScramSHA512 {
		t.Errorf("without any user: %+v", all)
	}
	w.set("both", "x")
	w.set("one", "x", metadata.ScramSHA512)
	seen := map[int]int{}
	for i := range 1000 {
		all := w.unknownPlain(fmt.Sprint("x", i))
		if len(all) == 1 && all[0].Mechanism != metadata.ScramSHA512 || all[0].Iterations != cheap {
			t.Fatalf("%+v", all)
		}
		seen[len(all)]++
	}
	if seen[1] < 350 || seen[2] < 350 || seen[1]+seen[2] != 1000 {
		t.Errorf("numbers of credentials: %v", seen)
	}
}

func TestMalformedMessagesFail(t *testing.T) {
	w := newWorld(t, Options{})
	w.set("bob", "right")
	long := strings.Repeat("x", metadata.MaxUserName+1)
	for mechanism, messages := range map[string][]string{
		Plain: {"", "bob", "\x00bob", "\x00bob\x00", "\x00\x00right", "alice\x00bob\x00right", "\x00bob\x00right\x00", "\x00bo\nb\x00right",
			"\x00" + long + "\x00right", "\x00bob\x00" + strings.Repeat("x", maxMessage)},
		ScramSHA256: {"", "n,,", "n,,n=bob", "p=tls-unique,,n=bob,r=x", "n,a=alice,n=bob,r=x", "n,,m=ext,n=bob,r=x", "n,,n=,r=x",
			"n,,n=bo\x07b,r=x", "n,,n=b=3bob,r=x", "n,,n=" + long + ",r=x", "n,,n=bob,r=" + strings.Repeat("x", maxMessage)},
	} {
		for _, m := range messages {
			c, err := w.Begin(mechanism, "")
			must.OK(t, err)
			if out, who, err := c.Step([]byte(m)); err == nil || who != nil || len(out) > 0 {
				t.Errorf("%s %.50q: %v %q", mechanism, m, who, out)
			} else if strings.Contains(err.Error(), "right") || len(err.Error()) > 2000 {
				t.Errorf("%.50q: the reason shows the password, or is too long: %v", m, err)
			}
			if _, who, err := c.Step([]byte("\x00bob\x00right")); err == nil || who != nil {
				t.Errorf("%s goes on after a failure: %v", mechanism, who)
			}
		}
	}
	for _, mechanism := range []string{"", "GSSAPI", "SCRAM-SHA-1", OAuthBearer, "plain"} {
		if _, err := w.Begin(mechanism, ""); !errors.Is(err, ErrUnknownMechanism) {
			t.Errorf("%s: %v", mechanism, err)
		}
	}
}

// The reason leads to the client's mistake: another mechanism, or an old librdkafka, which repeats
// its nonce in the last message.
func TestReasonsOfScramNameTheMistake(t *testing.T) {
	w := newWorld(t, Options{})
	w.set("bob", "right")
	for want, messages := range map[string][]string{
		"check sasl.mechanism at the client": {"\x00bob\x00right"},
		"librdkafka before 2.6.1":            {"n,,n=bob,r=x", "c=biws,r=xx,p=AAAA"},
	} {
		c, err := w.Begin(ScramSHA256, "")
		for _, m := range messages {
			must.OK(t, err)
			_, _, err = c.Step([]byte(m))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", messages, err, want)
		}
	}
}

// Clients that are configured for another mechanism send their password or token to this one. No
// byte of it gets into the reason, which is logged.
func TestReasonsShowNothingOfAMessage(t *testing.T) {
	w := newWorld(t, Options{})
	w.set("bob", "right")
	for _, messages := range [][]string{
		{"\x00bob\x00s3cr3t,a,b,c,d"}, {"n,,\x01auth=Bearer s3cr3t,x\x01\x01"}, {"n,s3cr3t,n=bob,r=x"}, {"n,,n=bob,s3cr3t"},
		{"n,,n=bob,r=x", "s3cr3t,s3cr3t,s3cr3t"}, {"n,,n=bob,r=x", "c=biws,s3cr3t,p=AAAA"}, {"n,,n=bob,r=x", "c=czNjcjN0,r=x,p=AAAA"},
		{"n,,n=bob,r=x", "c=s3cr3t,r=x,p=AAAA"},
	} {
		c, err := w.Begin(ScramSHA256, "")
		must.OK(t, err)
		for _, m := range messages {
			_, _, err = c.Step([]byte(m))
		}
		hex := fmt.Sprintf("%x", "s3cr3t")
		if err == nil || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), hex) || len(err.Error()) > 200 {
			t.Errorf("%q: %v", messages, err)
		}
	}
}

// The log names the cause of a failure, which clients don't learn.
func TestReasonsAreTrue(t *testing.T) {
	w := newWorld(t, Options{})
	w.set("bob", "right")
	for user, reason := range map[string]string{"bob": "the password is wrong", "eve": "there is no such user"} {
		_, err := w.talk(scramclient.Auth{User: user, Pass: "wrong"}.AsSha256Mechanism(), "")
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %q", user, err, reason)
		}
	}
}

// A name that could never be a principal is no name of a user: it would be added and never log in.
func TestNamesOfUsersArePrincipals(t *testing.T) {
	for _, name := range []string{"", "a\x00b", "a\nb", "a\x7fb", "a\u0085b", "a\xffb", strings.Repeat("n", metadata.MaxUserName+1)} {
		if ValidName(name) {
			t.Errorf("%q is valid", name)
		}
	}
	for _, name := range []string{"bob", "ö ü@example.com", "CN=a,O=b", "User:bob", strings.Repeat("n", metadata.MaxUserName)} {
		if !ValidName(name) {
			t.Errorf("%q is not valid", name)
		}
	}
}

// A client's proof is worth nothing in another conversation.
func TestProofsAreNotReplayed(t *testing.T) {
	w := newWorld(t, Options{})
	w.set("bob", "right")
	client := scramclient.Auth{User: "bob", Pass: "right"}.AsSha256Mechanism()
	session, first, err := client.Authenticate(t.Context(), "")
	must.OK(t, err)
	begin := func() (Conversation, []byte) {
		c, err := w.Begin(ScramSHA256, "")
		must.OK(t, err)
		out, _, err := c.Step(first)
		must.OK(t, err)
		return c, out
	}
	c, out := begin()
	_, proof, err := session.Challenge(out)
	must.OK(t, err)
	other, otherOut := begin()
	if bytes.Equal(out, otherOut) {
		t.Fatal("two conversations have the same nonce")
	}
	if _, who, err := other.Step(proof); err == nil || who != nil {
		t.Errorf("a proof of another conversation is accepted: %+v", who)
	}
	if _, who, err := c.Step(proof); err != nil || who == nil {
		t.Errorf("%v", err)
	}
	if _, who, err := c.Step(proof); err == nil || who != nil {
		t.Errorf("a conversation is used twice: %+v", who)
	}
}

func TestSessionsExpire(t *testing.T) {
	w := newWorld(t, Options{})
	w.set("bob", "right")
	client := plainclient.Auth{User: "bob", Pass: "right"}.AsMechanism()
	if who, err := w.talk(client, ""); err != nil || !who.Expires.IsZero() {
		t.Errorf("%+v %v", who, err)
	}
	w.opt.MaxSession = time.Hour
	if who, err := w.talk(client, ""); err != nil || !who.Expires.Equal(w.now.Add(time.Hour)) {
		t.Errorf("%+v %v", who, err)
	}
}

// A session ends when its user is removed or gets a new password, and not for another reason.
func TestSessionsEndWithTheirUser(t *testing.T) {
	w := newWorld(t, Options{})
	w.set("bob", "right")
	w.set("eve", "right")
	begin := func(user string, mechanism int) (ended *int, forget func()) {
		who, err := w.talk(byPassword(user, "right")[mechanism], "")
		must.OK(t, err)
		ended = new(int)
		return ended, who.Until(func() { *ended++ })
	}
	by256, _ := begin("bob", 0)
	by512, _ := begin("bob", 1)
	byPlain, _ := begin("bob", 2)
	eve, _ := begin("eve", 0)
	forgotten, forget := begin("bob", 0)
	forget()
	late, err := w.talk(byPassword("bob", "right")[0], "")
	must.OK(t, err)

	c, err := NewCredential(metadata.ScramSHA256, secret.Of("new"), cheap) // the other credential stays
	must.OK(t, err)
	w.write(metadata.Event{Key: metadata.UserKey("bob"), Value: w.image.User("bob").With(c).Encode()})
	if *by256 != 1 || *by512 != 0 || *byPlain != 1 || *eve != 0 || *forgotten != 0 {
		t.Errorf("after a new password for SCRAM-SHA-256: %d %d %d, another user %d, a closed connection %d", *by256, *by512, *byPlain,
			*eve, *forgotten)
	}
	ended := 0
	late.Until(func() { ended++ })
	if ended != 1 {
		t.Error("a login that began before the new password is not ended")
	}
	w.remove("bob")
	if *by512 != 1 || *eve != 0 {
		t.Errorf("after the removal: %d, another user %d", *by512, *eve)
	}
	w.set("bob", "right")
	if *by512 != 1 && *eve != 0 {
		t.Error("a new user ends sessions")
	}
	begin("bob", 2)
	w.set("bob", "new")
	if _, err := w.talk(byPassword("bob", "right")[2], ""); err == nil {
		t.Error("PLAIN remembers the former password")
	}
}

// Each failure of an address doubles its delay; a minute takes one back; other addresses are not
// concerned, and neither is a user whose password others guess.
func TestFailuresAreDelayed(t *testing.T) {
	w := newWorld(t, Options{Delay: 100 * time.Millisecond})
	w.set("bob", "right")
	fail := func(host string) time.Duration {
		_, err := w.talk(plainclient.Auth{User: "bob", Pass: "wrong"}.AsMechanism(), host)
		var f *Failure
		if !errors.As(err, &f) {
			t.Fatal(err)
		}
		return f.Delay()
	}
	for i, want := range []int{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		if got := fail("10.0.0.1"); got != time.Duration(want)*time.Millisecond {
			t.Errorf("failure %d is delayed by %v", i, got)
		}
	}
	if got := fail("10.0.0.2"); got != 100*time.Millisecond {
		t.Errorf("another address: %v", got)
	}
	w.now = w.now.Add(6*time.Minute + 59*time.Second)
	if got := fail("10.0.0.1"); got != 400*time.Millisecond {
		t.Errorf("after 6 minutes: %v", got)
	}
	w.now = w.now.Add(time.Hour)
	if got := fail("10.0.0.1"); got != 100*time.Millisecond {
		t.Errorf("after an hour: %v", got)
	}
	fail("2001:db8::1")
	if got := fail("2001:db8::ffff:1"); got != 200*time.Millisecond {
		t.Errorf("another address of the same network: %v", got)
	}
	if got := fail("2001:db8:0:1::1"); got != 100*time.Millisecond {
		t.Errorf("another network: %v", got)
	}
	fail("10.0.0.2")
	if got := fail("::ffff:10.0.0.2"); got != 200*time.Millisecond {
		t.Errorf("the same address in IPv6: %v", got)
	}
	none := &delays{most: time.Minute, by: map[string]failures{}}
	for range 2 {
		if got := none.failed("10.0.0.1", w.now); got != 0 {
			t.Errorf("without a delay: %v", got)
		}
	}
	d := &delays{first: time.Second, most: time.Minute, by: map[string]failures{}}
	for i := range maxAddresses + 10 {
		d.failed(fmt.Sprint(i), w.now)
	}
	if n := len(d.by); n != maxAddresses-freeAddresses+10 { // so that not each of them looks through all others
		t.Errorf("%d addresses are counted", n)
	}
}

// The memory of passwords is bounded, and one that is used stays.
func TestMemoIsBounded(t *testing.T) {
	var m memo
	used := m.proof("bob", []byte("key"), []byte("right"))
	m.add(used)
	for i := range 3 * memoSize {
		m.add(m.proof(fmt.Sprint(i), []byte("key"), []byte("x")))
		if !m.has(used) {
			t.Fatalf("forgotten after %d others", i)
		}
	}
	if n := len(m.new) + len(m.old); n > 2*memoSize {
		t.Errorf("%d passwords are remembered", n)
	}
	if m.proof("bob", []byte("key2"), []byte("right")) == used || m.proof("bob", []byte("key"), []byte("wrong")) == used {
		t.Error("a proof does not depend on everything")
	}
}

// A password that is stored as text is read as it was. A damaged one is refused.
func TestAStoredPasswordIsText(t *testing.T) {
	for _, m := range []metadata.ScramMechanism{metadata.ScramSHA256, metadata.ScramSHA512} {
		c, err := NewCredential(m, secret.Of("a password"), DefaultIterations)
		must.OK(t, err)
		text := Stored(c)
		got, err := ParseStored(m, text)
		if err != nil || !IsStored(text) || Stored(got) != text || got.Mechanism != m || got.Iterations != DefaultIterations {
			t.Errorf("%s: %v", text, err)
		}
		for _, wrong := range []string{
			// ings.Replace(text, "8192", "1", 1), strings.Replace(text, "storedkey", "key", 1),
			// strings.Replace(text, "salt=", "salt=!", 1),
			text[:len(text)-9] + "]", "[iterations=8192]", strings.Replace(text, ",server", ",more=,server", 1),
		} {
			if _, err := ParseStored(m, wrong); err == nil {
				t.Errorf("%s is accepted", wrong)
			}
		}
	}
	if IsStored("[abc]") || IsStored("iterations=8192") {
		t.Error("a password counts as a stored one")
	}
}
