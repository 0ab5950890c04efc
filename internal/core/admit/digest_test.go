package admit

import (
	"strings"
	"testing"
)

func TestDigestsHaveOneSpelling(t *testing.T) {
	good := strings.Repeat("0a", 32)
	d, err := ParseDigest(good)
	if err != nil || d != digestOf(10) || d.String() != good {
		t.Fatalf("%s, %v", d, err)
	}
	if c, err := ParseChallenge(good); err != nil || c != challengeOf(10) {
		t.Fatalf("%s, %v", c, err)
	}
	for name, text := range map[string]string{
		"empty": "", "none": "none", "short": good[2:], "long": good + "0a", "odd": good[1:], "upper case": strings.ToUpper(good),
		"another letter": "g" + good[1:], "all zero": strings.Repeat("0", 64), "white space": " " + good[1:],
	} {
		if d, err := ParseDigest(text); err == nil || !d.IsZero() {
			t.Errorf("%s: read as %s", name, d)
		}
		if c, err := ParseChallenge(text); err == nil || !c.IsZero() {
			t.Errorf("%s: read as %s", name, c)
		}
	}
	if (Digest{}).String() != "none" || (Challenge{}).String() != "none" {
		t.Error("none does not say so")
	}
}
