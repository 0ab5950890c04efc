// Package syslib reads the dynamic loader's words about a system library that
// is not there and names the Debian package which brings it.
//
// It may not open anything: it is given text. The loader's sentence is fixed
// by glibc (dlerror) and not translated under LC_ALL=C.
package syslib

import (
	"regexp"
	"strings"
)

var missing = regexp.MustCompile(`([A-Za-z0-9_+.-]+\.so(?:\.[0-9]+)*): cannot open shared object file`)

// packages holds what Debian's naming rule does not give.
var packages = map[string]string{
	"libm.so.6":       "libc6",
	"libc.so.6":       "libc6",
	"libdl.so.2":      "libc6",
	"libpthread.so.0": "libc6",
	"librt.so.1":      "libc6",
	"libgcc_s.so.1":   "libgcc-s1",
}

var soname = regexp.MustCompile(`^(.+)\.so(?:\.([0-9]+))?`)

// Missing finds the first library that the loader did not find in text, and
// the Debian package to install for it. Libraries of the engine itself are not
// the system's and do not count.
func Missing(text string) (library, pkg string, found bool) {
	for _, m := range missing.FindAllStringSubmatch(text, -1) {
		name := m[1]
		if strings.HasPrefix(name, "libllama") || strings.HasPrefix(name, "libggml") {
			continue
		}
		return name, Package(name), true
	}
	return "", "", false
}

// Package names the Debian package of a shared library by Debian's rule: name
// and version of the soname, parted by a dash where the name ends in a digit
// (Debian Policy 8.1), with the C library's parts as exceptions.
func Package(library string) string {
	if p, ok := packages[library]; ok {
		return p
	}
	if strings.HasPrefix(library, "ld-linux") {
		return "libc6"
	}
	m := soname.FindStringSubmatch(library)
	if m == nil {
		return library
	}
	name := strings.ReplaceAll(strings.ToLower(m[1]), "_", "-")
	if last := name[len(name)-1]; last >= '0' && last <= '9' && m[2] != "" {
		return name + "-" + m[2]
	}
	return name + m[2]
}
