// Abort is a worker whose foreign library aborts.
package main

/*
#include <stdlib.h>
#include <stdio.h>
static void fail(void) { puts("printed by a library"); fflush(stdout); abort(); }
*/
import "C"

import (
	"os"

	"muster/internal/worker/child"
)

func main() {
	if _, err := child.Start(); err != nil {
		os.Exit(99)
	}
	C.fail()
}
