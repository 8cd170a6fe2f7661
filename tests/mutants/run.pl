#!/usr/bin/perl
# run.pl: checks that tests detect one-line faults: applies each fault to a copy of the checkout and runs its tests.
#
#   make mutants                      all of tests/mutants/*.mutants
#   make mutants MUTANTS='hub|nack'   only matching areas or names
#   tests/mutants/run.pl --check      only checks that each fault still applies (part of make lint)
#
# A fault is caught when its test fails, and survives when the test passes. The run fails when less than 95 % are
# caught, when a fault with `guard: leak` survives, or when a fault cannot be applied or built.
# JOBS is the number of parallel faults, each in a separate copy (default: the number of processors).
# BASELINE=0 skips the run of all named tests on the unchanged code. Without that run, "caught" proves little.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use POSIX qw(WNOHANG setpgid);
use Time::HiRes qw(sleep);

use constant {
    CAUGHT_AT_LEAST => 0.95,
    TEST_SECONDS => 900,
};

my $top = abs_path(dirname(__FILE__) . '/../..');
my $copies = "$top/build/mutants";

# ---- reading

sub read_file {
    my ($path) = @_;
    open my $in, '<:raw', $path or die "could not open $path: $!\n";
    local $/;
    return scalar <$in>;
}

sub write_file {
    my ($path, $text) = @_;
    open my $out, '>:raw', $path or die "could not open $path: $!\n";
    print $out $text;
    close $out or die "could not write $path: $!\n";
}

# Blocks of "key: value" lines, separated by empty lines; "#" starts a comment.
sub read_mutants {
    my ($path) = @_;
    my $area = basename($path, '.mutants');
    my @mutants;
    for my $block (split /\n(?:[ \t]*\n)+/, read_file($path)) {
        my %mutant = (area => $area);
        for my $line (grep { /\S/ && !/^#/ } split /\n/, $block) {
            my ($key, $value) = $line =~ /^(name|file|from|to|test|guard): ?(.*)$/
                or die "$path: not \"key: value\" with a known key: $line\n";
            die "$path: duplicate key \"$key\": $line\n" if exists $mutant{$key};
            $mutant{$key} = $value;
        }
        next if keys %mutant == 1;
        for my $key (qw(name file from to test)) {
            die "$path: \"$key\" is missing in: $block\n" unless defined $mutant{$key};
        }
        push @mutants, \%mutant;
    }
    return @mutants;
}

# Returns the reason why a mutant cannot be applied, or undef.
sub fault_of {
    my ($mutant) = @_;
    my $path = "$top/$mutant->{file}";
    return "no file $mutant->{file}" unless -f $path;
    my $count = () = read_file($path) =~ /\Q$mutant->{from}\E/g;
    return "\"$mutant->{from}\" occurs $count times in $mutant->{file}, not once" if $count != 1;
    for my $test ($mutant->{test} =~ m{((?:client/)?tests/\S+)}g) {
        $test =~ s/["']$//;
        return "no file $test" unless -e "$top/$test";
    }
    return undef;
}

# ---- running

sub make_copy {
    my ($number) = @_;
    my $copy = "$copies/$number";
    system('mkdir', '-p', $copy) == 0 or die "could not make $copy\n";
    system('bash', '-c', 'find "$2" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} + &&
        tar -C "$1" -c --exclude=./.git --exclude=./.demo --exclude=./build/work --exclude=./build/roots \
            --exclude=./build/mutants --exclude=node_modules . | tar -C "$2" -x', 'copy', $top, $copy) == 0
        or die "could not copy the checkout to $copy\n";
    return $copy;
}

# Runs make with these arguments in the copy and returns its output, which is also in the file `$log`. A test that hangs
# is killed with all of its processes.
sub run_make {
    my ($copy, $arguments, $log) = @_;
    my $pid = fork() // die "could not fork: $!\n";
    if ($pid == 0) {
        setpgid(0, 0);
        open STDIN, '<', '/dev/null';
        open STDOUT, '>', $log or POSIX::_exit(126);
        open STDERR, '>&', \*STDOUT;
        delete @ENV{qw(MAKEFLAGS MFLAGS MAKELEVEL)};
        $ENV{CLAIRON_LONG} = 1 if $arguments =~ /^check-client /;    # tests client/src too
        exec('bash', '-c', "cd \"\$1\" && exec make --no-print-directory $arguments", 'make', $copy)
            or POSIX::_exit(127);
    }
    my $deadline = time + TEST_SECONDS;
    while (waitpid($pid, WNOHANG) == 0) {
        if (time > $deadline) {
            kill 'KILL', -$pid;
            waitpid $pid, 0;
            system 'bash', '-c', 'echo "stopped after $1 s" >>"$2"; echo "0 passed, 1 failed" >>"$2"', 'note',
                TEST_SECONDS, $log;
            last;
        }
        sleep 0.1;
    }
    return read_file($log);
}

# Returns the totals that tests/check.sh prints, (passed, failed), or nothing when no test ran.
sub totals_of {
    my ($output) = @_;
    my ($passed, $failed) = $output =~ /.*^(\d+) passed, (\d+) failed/ms or return;
    return ($passed, $failed);
}

# Returns "caught", "survived", or an error.
sub verdict {
    my ($copy, $mutant, $log) = @_;
    my $path = "$copy/$mutant->{file}";
    my $text = read_file($path);
    my $faulty = $text;
    $faulty =~ s/\Q$mutant->{from}\E/$mutant->{to}/;
    write_file($path, $faulty);
    my ($passed, $failed) = totals_of(run_make($copy, $mutant->{test}, $log));
    write_file($path, $text);
    return 'no test ran' unless defined $failed && $passed + $failed > 0;
    return $failed > 0 ? 'caught' : 'survived';
}

# Runs each named test on the unchanged code, with one call of make per layer.
sub check_baseline {
    my ($copy, @mutants) = @_;
    my (%files, %whole);
    for my $mutant (@mutants) {
        my ($layer, $files) = $mutant->{test} =~ /^(\S+)(?:\s+TESTS=["']?(.*?)["']?)?$/
            or die "$mutant->{name}: test is \"LAYER\" or \"LAYER TESTS=files\", not $mutant->{test}\n";
        $whole{$layer} = 1 unless defined $files;
        $files{$layer}{$_} = 1 for split ' ', $files // '';
    }
    for my $layer (sort keys %{ { %whole, %files } }) {
        my $tests = $whole{$layer} ? '' : 'TESTS="' . join(' ', sort keys %{ $files{$layer} }) . '"';
        my $log = "$copies/baseline-$layer.log";
        my ($passed, $failed) = totals_of(run_make($copy, "$layer $tests", $log));
        die "$layer fails on the unchanged code: see $log\n" if !defined $failed || $failed > 0 || $passed == 0;
        print "baseline: $layer: $passed passed\n";
    }
}

# Runs each mutant in a free copy; calls `$on_verdict` with each mutant and its result when its test has ended.
sub run_all {
    my ($jobs, $mutants, $on_verdict) = @_;
    my @waiting = map { [ $_, $mutants->[$_] ] } 0 .. $#$mutants;
    my @free = map { make_copy($_) } 1 .. $jobs;
    check_baseline($free[0], @$mutants) unless ($ENV{BASELINE} // 1) eq '0';
    my %running;
    while (@waiting || %running) {
        while (@waiting && @free) {
            my ($number, $mutant) = @{ shift @waiting };
            my $copy = shift @free;
            my $result = "$copies/result-$number";
            my $pid = fork() // die "could not fork: $!\n";
            if ($pid == 0) {
                my $start = time;
                my $verdict = eval { verdict($copy, $mutant, "$copies/$mutant->{area}-$number.log") } // "error: $@";
                write_file($result, join("\n", $verdict, time - $start));
                POSIX::_exit(0);
            }
            $running{$pid} = [ $mutant, $copy, $result, "$copies/$mutant->{area}-$number.log" ];
        }
        my $pid = waitpid(-1, 0);
        my ($mutant, $copy, $result, $log) = @{ delete $running{$pid} // next };
        my ($verdict, $seconds) = -e $result ? split(/\n/, read_file($result)) : ('error: no result', 0);
        unlink $result;
        push @free, $copy;
        $on_verdict->($mutant, $verdict, $seconds, $log);
    }
}

# ---- main

my $check_only = @ARGV && $ARGV[0] eq '--check';
my $wanted = $ENV{MUTANTS} // '';
my @mutants = grep { "$_->{area}: $_->{name}" =~ /$wanted/i }
    map { read_mutants($_) } sort glob "$top/tests/mutants/*.mutants";
die "no mutant matches \"$wanted\"\n" unless @mutants;

my @stale = grep { defined $_->[1] } map { [ $_, fault_of($_) ] } @mutants;
print STDERR "tests/mutants/$_->[0]{area}.mutants: $_->[0]{name}: $_->[1]\n" for @stale;
exit 1 if @stale;
exit 0 if $check_only;

$| = 1;
chomp(my $processors = `nproc`);
my %count = (caught => 0, survived => 0, broken => 0, leaked => 0);
run_all($ENV{JOBS} // $processors, \@mutants, sub {
    my ($mutant, $verdict, $seconds, $log) = @_;
    my $kind = exists $count{$verdict} ? $verdict : 'broken';
    $count{$kind}++;
    my $leaked = $kind ne 'caught' && ($mutant->{guard} // '') eq 'leak';
    $count{leaked}++ if $leaked;
    printf "%-9s %s: %s (%d s)%s\n", $kind, $mutant->{area}, $mutant->{name}, $seconds,
        $kind eq 'caught' ? '' : ": $verdict" . ($leaked ? ', a leak guard' : '') . ", see $log";
});
my $share = $count{caught} / @mutants;
printf "%d mutants: %d caught (%.1f %%), %d survived, %d not applied or not built, leak guards not caught: %d\n",
    scalar @mutants, $count{caught}, 100 * $share, $count{survived}, $count{broken}, $count{leaked};
exit($share >= CAUGHT_AT_LEAST && !$count{broken} && !$count{leaked} ? 0 : 1);
