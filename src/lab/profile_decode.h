/* profile_decode.h -- `spolia profile --decode`. */
#ifndef SP_LAB_PROFILE_DECODE_H
#define SP_LAB_PROFILE_DECODE_H

int lab_profile_decode(int argc, char **argv); /* argv[0]: "--decode" */

#endif
