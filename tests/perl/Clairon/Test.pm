# Clairon::Test: starts the servers of a system test and stops them at its end.
#
#   use Clairon::Test;
#   my $pg    = Clairon::Test::postgresql('main');      # Clairon::Test::Cluster, started
#   my $store = Clairon::Test::store();                 # Clairon::Test::Store, started
#   my $relay = Clairon::Test::relay($pg, $store);      # Clairon::Test::Relay, ready
#   my $user  = $relay->client('u1');                   # Clairon::Test::Client, connected
#
# tests/check.sh tap runs the files and sets the environment (tests/env.sh). All servers stop when the test ends, dies
# or is interrupted. Tests do not sleep: wait_until() polls a condition until a deadline, and CLAIRON_TEST_SECONDS
# limits a whole test.
package Clairon::Test;

use strict;
use warnings;

use Clairon::Test::FreeCpu;

use Carp qw(confess croak);
use Digest::SHA qw(hmac_sha256);
use Exporter qw(import);
use File::Temp ();
use IPC::Run ();
use JSON ();
use List::Util qw(max min);
use MIME::Base64 qw(encode_base64url);
use POSIX ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More ();
use Time::HiRes qw(time);

use Clairon::Test::Cluster;
use Clairon::Test::DelayedReplies;
use Clairon::Test::Network;
use Clairon::Test::Page;
use Clairon::Test::Proxy;
use Clairon::Test::Relay;
use Clairon::Test::Sentinels;
use Clairon::Test::Store;
use Clairon::Test::StoreCluster;

our @EXPORT_OK = qw(wait_until wait_confirmed free_port pg_major token scratch top program is_sanitized children is_running of_mark script_text amount audited unaudited);

our $SECONDS = $ENV{PG_TEST_TIMEOUT_DEFAULT} || 60;    # default deadline of a wait
our $SECRET  = 'a secret of tests, long enough for HS256 tokens';

my $owner = $$;
my @running;    # servers and processes, in start order
my $scratch;

sub top { return $ENV{CLAIRON_TOP} // die "CLAIRON_TOP is not set: run tests/check.sh tap\n" }

# The program under test. `make check-asan` uses another program, which is slower and needs more memory.
sub program      { return $ENV{CLAIRON_PROGRAM} // top() . '/build/clairon' }
sub is_sanitized { return defined $ENV{CLAIRON_PROGRAM} }

# On a signal, stops all servers and prints the stack.
sub end_by
{
    my ($signal) = @_;
    POSIX::_exit(1) if $$ != $owner;        # a forked child of the test
    alarm 1         if $signal eq 'ALRM';    # repeated, because an eval may have caught the first signal
    confess "terminated by SIG$signal";
}

$SIG{$_} = \&end_by for qw(ALRM INT TERM);
alarm($ENV{CLAIRON_TEST_SECONDS} // 0);

# The test's private folder, removed at the end. Its path is short enough for Unix sockets.
sub scratch
{
    $scratch //= File::Temp->newdir('clairon-XXXXXX', TMPDIR => 1);
    return "$scratch";
}

# Polls `$condition` until it is true and returns its value. Dies with `$what` at the deadline. In long waits the
# intervals grow, because conditions query servers.
sub wait_until
{
    my ($what, $condition, $seconds) = @_;
    $seconds //= $SECONDS;
    my $begin = time();
    while (1)
    {
        my $result = $condition->();
        return $result if $result;
        my $waited = time() - $begin;
        croak "not within $seconds s: $what" if $waited > $seconds;
        select(undef, undef, undef, min(0.2, max(0.02, $waited / 20)));
    }
    return;
}

# Waits until the slot's confirmed_flush_lsn reaches `$end`, by default the current end of the WAL. PostgreSQL
# then retains no WAL for the relay.
sub wait_confirmed
{
    my ($pg, $end) = @_;
    $end //= $pg->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
    return wait_until('the slot is confirmed', sub {
        $pg->safe_psql('postgres', "SELECT confirmed_flush_lsn >= '$end' FROM pg_replication_slots") eq 't' });
}

# Runs this SQL file with psql in the background, up to the first error. finish() waits for its end.
sub writer
{
    my ($pg, $file) = @_;
    return IPC::Run::start([ 'psql', '-qAtX', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', $pg->connstr('postgres'), '-f', $file ]);
}

# Returns a client's notifications with that `mark` in the payload.
sub of_mark { my ($client, $mark) = @_; return grep { ($_->{payload}{mark} // '') eq $mark } $client->notifications }

# Returns act and object of the audit lines in a log or in the errors of a command, and the other lines.
sub audited { my ($text) = @_; return $text =~ /^component=audit .* (act="[^"]*" object="[^"]*")$/mg }
sub unaudited { my ($text) = @_; return $text =~ s/^component=audit .*\n//mgr }

# Returns a Lua script of the relay, as the build expands it.
sub script_text { my ($name) = @_; return slurp_file(top() . "/build/gen/scripts/$name.lua") }

# Returns `$long` under `make check-long`, which sets CLAIRON_LONG, otherwise `$short`.
sub amount { my ($short, $long) = @_; return $ENV{CLAIRON_LONG} ? $long : $short }

# Returns the lines of the file that are not strict JSON, with their errors; '' if all lines are valid.
sub strict_faults
{
    my ($file) = @_;
    my $errors = qx{'@{[top()]}/build/strict_lines' <'$file'};
    return $errors . ($? == 0 ? '' : "status $?");
}

# Returns a TCP port of 127.0.0.1 that no other test of this checkout uses. The port is below the ephemeral range, so
# that no outgoing connection can occupy it.
sub free_port { return PostgreSQL::Test::Cluster::get_free_port() }

# Returns the child processes of `$pid`, for example a supervisor's workers.
sub children
{
    my ($pid) = @_;
    my @found;
    if (open my $file, '<', "/proc/$pid/task/$pid/children") { @found = split ' ', <$file> // '' }
    return @found;
}

# Returns whether this process is alive. A zombie is not alive.
sub is_running
{
    my ($pid) = @_;
    open my $file, '<', "/proc/$pid/stat" or return 0;
    return (<$file> // ') Z') !~ /.*\) Z/;
}

# token(sub => 'u1', groups => {..}, ..): returns an HS256 token for the relay. The token expires in an hour unless
# `exp` is set. `secret` replaces the signing key. A claim with the value undef is omitted.
sub token
{
    my %claims = (exp => int(time()) + 3600, @_);
    my $secret = delete $claims{secret} // $SECRET;
    delete $claims{$_} for grep { !defined $claims{$_} } keys %claims;
    my $json = JSON->new->canonical->utf8;
    my $text = join '.', map { encode_base64url($json->encode($_)) }
      { alg => 'HS256', typ => 'JWT' }, \%claims;
    return $text . '.' . encode_base64url(hmac_sha256($text, $secret));
}

# Returns a started PostgreSQL with the plugin, the database `postgres` and the usual superuser. The role `relay` has
# the privileges that a relay needs; see relay(). Options: conf => additional lines of postgresql.conf;
# extension => 0 omits CREATE EXTENSION.
sub postgresql
{
    my ($name, %options) = @_;
    my $node = Clairon::Test::Cluster->new($name);
    $node->init(extension => $options{extension} // 1);
    $node->append_conf('postgresql.conf', server_settings($node) . "\n" . ($options{conf} // ''));
    $node->start;
    remember($node);
    return $node;
}

# Returns a started standby of `$primary`, configured for logical decoding on the standby. name => its name; conf =>
# additional lines of its postgresql.conf.
sub standby
{
    my ($primary, %options) = @_;
    my $node = Clairon::Test::Cluster->new($options{name} // 'standby');
    $primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby', true)});
    $primary->backup('copy');
    $node->init_from_backup($primary, 'copy', has_streaming => 1);
    $node->append_conf('postgresql.conf', join "\n", q{primary_slot_name = 'standby'}, 'hot_standby_feedback = on',
        'wal_receiver_status_interval = 1s', $options{conf} // '');
    remember($node);
    $node->start;
    return $node;
}

# Returns the major version of the PostgreSQL that postgresql() starts.
sub pg_major { return qx{postgres --version} =~ / (\d+)/ ? $1 : die "no postgres on PATH\n" }

sub server_settings
{
    my ($node) = @_;
    # JIT compilation takes seconds for queries on tables without statistics.
    my $text = "max_connections = 40\nmax_wal_senders = 10\nmax_replication_slots = 10\nfsync = off\njit = off\n";
    $text .= "output_plugin_libraries = 'pgoutput, test_decoding, clairon'\n"
      if slurp_file($node->data_dir . '/postgresql.conf') =~ /^#output_plugin_libraries\b/m;
    return $text;
}

# Returns a started store. Options: see Clairon::Test::Store->new.
sub store
{
    my $store = Clairon::Test::Store->new(folder => new_folder('store'), @_);
    remember($store);
    $store->start;
    return $store;
}

# Returns a started cluster of stores. Options: see Clairon::Test::StoreCluster->new.
sub store_cluster
{
    my $cluster = Clairon::Test::StoreCluster->new(folder => new_folder('cluster'), @_);
    remember($cluster);
    $cluster->start;
    return $cluster;
}

# Returns a started store with replicas and sentinels. Options: see Clairon::Test::Sentinels->new.
sub sentinels
{
    my $sentinels = Clairon::Test::Sentinels->new(folder => new_folder('sentinels'), @_);
    remember($sentinels);
    $sentinels->start;
    return $sentinels;
}

# Returns the started network of a cluster with this many nodes: see Clairon::Test::Network.
sub network
{
    my ($nodes) = @_;
    my $network = Clairon::Test::Network->new(nodes => $nodes, folder => new_folder('network'));
    remember($network);
    $network->start;
    return $network;
}

# Returns a started proxy in front of host:port or of a Unix socket. Options: see Clairon::Test::Proxy.
sub proxy
{
    my ($target, %options) = @_;
    my $proxy = Clairon::Test::Proxy->new($target, %options, folder => new_folder('proxy'));
    remember($proxy);
    $proxy->start;
    return $proxy;
}

# Returns a started proxy in front of a store that can delay selected replies: see Clairon::Test::DelayedReplies.
sub delayed_replies
{
    my ($target) = @_;
    my $proxy = Clairon::Test::DelayedReplies->new($target, folder => new_folder('delayed'));
    remember($proxy);
    $proxy->start;
    return $proxy;
}

# Returns the JavaScript client in a started node process. Options of Clairon::Test::Page->new: url, token, websocket.
sub page
{
    my (%options) = @_;
    my $page = Clairon::Test::Page->new(%options, top => top(), folder => new_folder('page'));
    remember($page);
    $page->start;
    return $page;
}

# Returns a relay between PostgreSQL and the store, started and ready. Options: roles; conf => { 'gate.ping' => '1s' };
# start => 0 does not start the relay; wait => 0 does not wait until the relay is ready.
sub relay
{
    my ($pg, $store, %options) = @_;
    my $relay = Clairon::Test::Relay->new($pg, $store, folder => new_folder('relay'), %options);
    remember($relay);
    return $relay unless $options{start} // 1;
    $relay->start;
    $relay->wait_ready if $options{wait} // 1;
    return $relay;
}

my $folders = 0;

sub new_folder
{
    my ($name) = @_;
    my $folder = sprintf '%s/%s%d', scratch(), $name, ++$folders;
    mkdir $folder or die "could not make $folder: $!";
    return $folder;
}

sub remember
{
    push @running, @_;
    return;
}

# PostgreSQL::Test::Utils writes all output of a test, including its last error, to a log file.
sub print_log_tail
{
    open my $log, '<', $PostgreSQL::Test::Utils::test_logfile or return;
    my @lines = grep { !/^(\[[\d:.()s]+\] ?)?#|^$/ } <$log>;
    splice @lines, 0, @lines - 12 if @lines > 12;
    Test::More::diag('end of its output:', "\n", map { "  $_" } @lines);
    return;
}

# Stops servers and processes in reverse start order. After a failed test, prints the logs of its relays.
END
{
    my $status = $?;
    POSIX::_exit($status) if $$ != $owner;
    alarm 0;
    print_log_tail() if $status != 0;
    for my $one (reverse @running)
    {
        eval {
            if ($one->isa('PostgreSQL::Test::Cluster')) { $one->stop('immediate', fail_ok => 1) }
            else                                        { $one->end }
            1;
        } and next;
        Test::More::diag("cleanup failed: $@");
        $status ||= 1;
    }
    if ($status != 0 || !Test::More->builder->is_passing)
    {
        $_->print_log for grep { $_->can('print_log') } @running;
    }
    $? = $status;
}

1;
