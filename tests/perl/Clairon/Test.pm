# Clairon::Test: the servers of a system test, and their end.
#
#   use Clairon::Test;
#   my $pg    = Clairon::Test::postgresql('main');      # Clairon::Test::Cluster, started
#   my $store = Clairon::Test::store();                 # Clairon::Test::Store, started
#   my $relay = Clairon::Test::relay($pg, $store);      # Clairon::Test::Relay, ready
#   my $user  = $relay->client('u1');                   # Clairon::Test::Client, connected
#
# Run by tests/check.sh tap, which sets the environment (tests/env.sh). Whatever
# was started is stopped when the test ends, also when it dies or is told to end. Nothing
# sleeps: wait_until() asks again until a deadline, and a whole test has CLAIRON_TEST_SECONDS.
package Clairon::Test;

use strict;
use warnings;

use Carp qw(confess croak);
use Digest::SHA qw(hmac_sha256);
use Exporter qw(import);
use File::Temp ();
use IPC::Run ();
use JSON ();
use MIME::Base64 qw(encode_base64url);
use POSIX ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More ();
use Time::HiRes qw(time);

use Clairon::Test::Client;
use Clairon::Test::Cluster;
use Clairon::Test::DelayedReplies;
use Clairon::Test::Page;
use Clairon::Test::Proxy;
use Clairon::Test::Relay;
use Clairon::Test::Store;

our @EXPORT_OK = qw(wait_until wait_confirmed free_port pg_major token scratch top program is_sanitized children lives of_mark script_text amount);

our $SECONDS = $ENV{PG_TEST_TIMEOUT_DEFAULT} || 60;    # the usual deadline
our $SECRET  = 'a secret of tests, long enough for HS256 tokens';

my $owner = $$;
my @running;    # what has a stop method, in the order of its start
my $scratch;

sub top { return $ENV{CLAIRON_TOP} // die "CLAIRON_TOP is not set: run tests/check.sh tap\n" }

# The program under test; `make check-asan` has another one, which is slower and needs more memory.
sub program      { return $ENV{CLAIRON_PROGRAM} // top() . '/build/clairon' }
sub is_sanitized { return defined $ENV{CLAIRON_PROGRAM} }

# Whoever is told to end stops what it started, and says where it was.
sub end_by
{
    my ($signal) = @_;
    POSIX::_exit(1) if $$ != $owner;        # a fork of the test
    alarm 1         if $signal eq 'ALRM';    # again, as an eval may have caught it
    confess "ended by SIG$signal";
}

$SIG{$_} = \&end_by for qw(ALRM INT TERM);
alarm($ENV{CLAIRON_TEST_SECONDS} // 0);

# A folder of this test's own, short enough for unix sockets, removed at the end.
sub scratch
{
    $scratch //= File::Temp->newdir('clairon-XXXXXX', TMPDIR => 1);
    return "$scratch";
}

# Asks `$question` until it is true and returns that; dies with `$what` at the deadline.
sub wait_until
{
    my ($what, $question, $seconds) = @_;
    my $deadline = time() + ($seconds // $SECONDS);
    while (1)
    {
        my $answer = $question->();
        return $answer if $answer;
        croak sprintf('not within %s s: %s', $seconds // $SECONDS, $what) if time() > $deadline;
        select(undef, undef, undef, 0.02);
    }
    return;
}

# Waits until the slot is confirmed up to there, else up to now: PostgreSQL holds nothing of ours any more.
sub wait_confirmed
{
    my ($pg, $end) = @_;
    $end //= $pg->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
    return wait_until('the slot is confirmed', sub {
        $pg->safe_psql('postgres', "SELECT confirmed_flush_lsn >= '$end' FROM pg_replication_slots") eq 't' });
}

# psql, which runs that file beside the test up to what fails. finish() waits for its end; whether it
# was a good one is not known once Mojo's loop has run, which reaps all children.
sub writer
{
    my ($pg, $file) = @_;
    return IPC::Run::start([ 'psql', '-qAtX', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', $pg->connstr('postgres'), '-f', $file ]);
}

# Of a client's notifications those whose payload has that `mark`.
sub of_mark { my ($client, $mark) = @_; return grep { ($_->{payload}{mark} // '') eq $mark } $client->notifications }

# One of the relay's scripts, as the build expands it.
sub script_text { my ($name) = @_; return slurp_file(top() . "/build/gen/scripts/$name.lua") }

# The first number; the second in `make check-long`, which sets CLAIRON_LONG.
sub amount { my ($short, $long) = @_; return $ENV{CLAIRON_LONG} ? $long : $short }

# What is wrong with the file's lines as strict JSON; '' if it is read, and nothing is.
sub strict_faults
{
    my ($file) = @_;
    my $said = qx{'@{[top()]}/build/strict_lines' <'$file'};
    return $said . ($? == 0 ? '' : "status $?");
}

# A TCP port of 127.0.0.1 that no test of this checkout was given before, and below those that outgoing
# connections are given: else one of them may have it before, or while, it is listened to.
sub free_port { return PostgreSQL::Test::Cluster::get_free_port() }

# The processes that this one started, as a relay its workers.
sub children
{
    my ($pid) = @_;
    my @found;
    if (open my $file, '<', "/proc/$pid/task/$pid/children") { @found = split ' ', <$file> // '' }
    return @found;
}

# Whether that process lives. One that has died and nobody waited for does not, whoever is its parent now.
sub lives
{
    my ($pid) = @_;
    open my $file, '<', "/proc/$pid/stat" or return 0;
    return (<$file> // ') Z') !~ /.*\) Z/;
}

# token(sub => 'u1', groups => {..}, ..): an HS256 token for our relay, an hour long
# unless `exp` says otherwise; `secret` signs with another. A claim of undef is left out.
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

# A started PostgreSQL with our plugin, database `postgres`, superuser as usual, and
# the role `relay` as a relay needs it once clairon is there: see relay().
# Options: conf => more lines for postgresql.conf; extension => 0: without clairon.
sub postgresql
{
    my ($name, %options) = @_;
    my $node = Clairon::Test::Cluster->new($name);
    $node->init;
    $node->append_conf('postgresql.conf', server_settings() . "\n" . ($options{conf} // ''));
    $node->start;
    remember($node);
    make_extension($node) if $options{extension} // 1;
    return $node;
}

# A started standby of it, which makes the primary keep what decoding on it needs.
# conf => more lines for its postgresql.conf.
sub standby
{
    my ($primary, %options) = @_;
    my $node = Clairon::Test::Cluster->new('standby');
    $primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby', true)});
    $primary->backup('copy');
    $node->init_from_backup($primary, 'copy', has_streaming => 1);
    $node->append_conf('postgresql.conf', join "\n", q{primary_slot_name = 'standby'}, 'hot_standby_feedback = on',
        'wal_receiver_status_interval = 1s', $options{conf} // '');
    remember($node);
    $node->start;
    return $node;
}

# Of the PostgreSQL that postgresql() starts.
sub pg_major { return qx{postgres --version} =~ / (\d+)/ ? $1 : die "no postgres on PATH\n" }

sub make_extension
{
    my ($node) = @_;
    $node->safe_psql('postgres',
        'CREATE EXTENSION clairon; CREATE ROLE relay LOGIN REPLICATION IN ROLE clairon_relay');
    return;
}

sub server_settings
{
    my $known = qx{postgres --describe-config};
    # To compile queries on tables without statistics takes seconds.
    my $text = "max_wal_senders = 10\nmax_replication_slots = 10\nfsync = off\njit = off\n";
    $text .= "output_plugin_libraries = 'pgoutput, test_decoding, clairon'\n"
      if $known =~ /^output_plugin_libraries\t/m;
    return $text;
}

# A started store; options as of Clairon::Test::Store->new.
sub store
{
    my $store = Clairon::Test::Store->new(folder => new_folder('store'), @_);
    remember($store);
    $store->start;
    return $store;
}

# A started proxy in front of a unix socket's path, or of host:port; options as of Clairon::Test::Proxy.
sub proxy
{
    my ($target, %options) = @_;
    my $proxy = Clairon::Test::Proxy->new($target, %options, folder => new_folder('proxy'));
    remember($proxy);
    $proxy->start;
    return $proxy;
}

# A started proxy in front of a store that holds back answers: see Clairon::Test::DelayedReplies.
sub delayed_replies
{
    my ($target) = @_;
    my $proxy = Clairon::Test::DelayedReplies->new($target, folder => new_folder('late'));
    remember($proxy);
    $proxy->start;
    return $proxy;
}

# Our client in a node process, started; options as of Clairon::Test::Page->new: url, token, websocket.
sub page
{
    my (%options) = @_;
    my $page = Clairon::Test::Page->new(%options, top => top(), folder => new_folder('page'));
    remember($page);
    $page->start;
    return $page;
}

# A relay between those two, started and ready. Options: roles, conf => { 'gate.ping' => '1s' },
# start => 0: only made; wait => 0: not waited for.
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

# What a test died of goes to PostgreSQL's own log of the test, as does all it prints.
sub show_last_words
{
    open my $log, '<', $PostgreSQL::Test::Utils::test_logfile or return;
    my @words = grep { !/^(\[[\d:.()s]+\] ?)?#|^$/ } <$log>;
    splice @words, 0, @words - 12 if @words > 12;
    Test::More::diag('the end of what it printed:', "\n", map { "  $_" } @words);
    return;
}

# Latest first. A failed test leaves its relays' logs where the check's logs are.
END
{
    my $status = $?;
    POSIX::_exit($status) if $$ != $owner;
    alarm 0;
    show_last_words() if $status != 0;
    for my $one (reverse @running)
    {
        eval {
            if ($one->isa('PostgreSQL::Test::Cluster')) { $one->stop('immediate', fail_ok => 1) }
            else                                        { $one->end }
            1;
        } and next;
        Test::More::diag("at the end: $@");
        $status ||= 1;
    }
    if ($status != 0 || !Test::More->builder->is_passing)
    {
        $_->show_log for grep { $_->can('show_log') } @running;
    }
    $? = $status;
}

1;
