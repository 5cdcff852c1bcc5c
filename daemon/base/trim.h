/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Gives back memory that only the start needed: free heap pages, and clean pages of programs and libraries, which the
 * kernel maps around each page that start-up code touched; what is still used is mapped again at its next use. No
 * effect on results; failures are ignored. */
void trim_memory(void);
