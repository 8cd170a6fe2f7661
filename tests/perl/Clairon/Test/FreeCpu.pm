# Clairon::Test::FreeCpu: delays the start of a test in the harness while other tests use all CPUs.
#
#   use Clairon::Test::FreeCpu;      # before modules that are slow to load
#
# Tests mostly wait, so the harness runs more files than there are CPUs. When more processes can run than there are
# CPUs, all tests need more CPU time, and waits time out.
package Clairon::Test::FreeCpu;

use strict;
use warnings;

use Time::HiRes qw(sleep);

use constant { SAMPLES => 5, PAUSE => 0.06, SECONDS => 30 };

# Returns the mean number of other runnable processes (proc_loadavg(5)).
sub runnable
{
    my $sum = 0;
    for (1 .. SAMPLES)
    {
        open my $file, '<', '/proc/loadavg' or return 0;
        my ($count) = <$file> =~ m{ (\d+)/} or return 0;
        $sum += $count - 1;
        sleep PAUSE;
    }
    return $sum / SAMPLES;
}

sub cpus { my ($count) = `nproc` =~ /(\d+)/; return $count // 1 }

sub wait_for_cpu
{
    my $cpus     = cpus();
    my $began    = time;
    sleep rand 1 while runnable() > $cpus && time < $began + SECONDS;
    print '# waited ', time - $began, " s for a CPU\n" if time > $began + 1;
    return;
}

wait_for_cpu() if $ENV{HARNESS_ACTIVE};

1;
