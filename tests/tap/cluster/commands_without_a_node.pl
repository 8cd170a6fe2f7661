# Tests that, while a node of a cluster is lost, the commands errors and trace work with the other shards, and report the
# missing shards if their result may be incomplete.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use IPC::Run ();
use JSON ();
use Test::More;

my $cluster = Clairon::Test::store_cluster(replicas => 0, fsync => 'no');    # with everysec, a killed node may lose acknowledged writes
my $relay = Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => { 'store.min_replicas' => 0 });
my @users = map { "u$_" } 0 .. 29;
my $UNKNOWN = '01234567-89ab-8def-8123-456789abcdef';

sub publish { my ($user) = @_;
    return Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/notifications', Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true),
        ':body' => { payload => {}, routing => { audience => { type => 'USER', targets => [$user] }, retry => { ack_required => JSON::true } } })->{json}{id} }

# Starts a command, and returns a function that returns its exit status, output and error messages.
sub begin
{
    my @command = @_;
    my ($out, $err);
    my $run = IPC::Run::start([ $relay->{program}, @command, '-c', $relay->{file} ], '>', \$out, '2>', \$err);
    return sub { $run->finish; return ($run->result(0), $out, $err) };
}
sub run { return begin(@_)->() }
sub listed { return sort map { JSON::decode_json($_)->{id} } split /\n/, $_[0] }

# Each user has a notification that expired.
my %id = map { $_ => publish($_) } @users;
for my $user (@users)
{
    my $shard = $cluster->shard_of($user);
    $cluster->execute('ZADD', "clairon:{$shard}:due", 1, "$id{$user}:");
}
wait_until('all notifications are in the error log', sub { $cluster->error_count == @users });
is(join(' ', run('errors', 'list', '--json')) =~ tr/\n//, 30, 'all entries are listed');
$relay->stop;

for my $case ([ 'a node', (grep { $_ != $cluster->primary_of(0) } $cluster->primaries)[0] ], [ 'the node of shard 0', $cluster->primary_of(0) ])
{
    my ($what, $lost) = @$case;
    my @missing = grep { $cluster->primary_of($_) == $lost } 0 .. $cluster->shards - 1;
    my $list = join ',', @missing;
    my %is_missing = map { $_ => 1 } @missing;
    my @others = grep { !$is_missing{ $cluster->shard_of($_) } } @users;
    my ($away) = grep { $is_missing{ $cluster->shard_of($_) } } @users;
    my ($first) = @others;
    my @ids = sort @id{@others};

    if ($missing[0] != 0)
    {
        $cluster->pause($lost);
        my ($code, $out, $err) = run('trace', $id{$first});
        is_deeply([ $code, $err ], [ 0, '' ], "$what is paused: the trace of a notification on another node is printed");
        like($out, qr/ errored /, "$what is paused: the trace is complete");
        delete $lost->{is_paused};
    }
    $lost->kill9;

    my @started = map { begin(@$_) } [ 'trace', $UNKNOWN ], [ 'trace', $id{$away} ], [ qw(errors list --json) ], [ qw(errors list --json), $id{$first} ],
        [ qw(errors list --json), $id{$away} ], [ qw(errors redrive --all --dry-run) ];
    is((run('trace', $id{$_}))[0], 0, "$what: the trace of a notification on another node is printed") for @others[ 0, -1 ];
    for ($UNKNOWN, $id{$away})
    {
        is_deeply([ shift(@started)->() ], [ 1, '', "clairon trace: no available shard has id $_; shards unavailable: $list\n" ],
            "$what: trace reports the missing shards, if they may have the notification");
    }
    my $warning = "clairon errors: shards unavailable: $list; their entries are not included\n";
    my ($code, $out, $err) = shift(@started)->();
    is_deeply([ $code, $err, listed($out) ], [ 1, $warning, @ids ], "$what: the entries of the other shards are listed, with a warning");
    ($code, $out, $err) = shift(@started)->();
    is_deeply([ $code, $err, listed($out) ], [ 0, '', $id{$first} ], "$what: a list of requested entries is complete without the missing shards");
    ($code, $out, $err) = shift(@started)->();
    is_deeply([ $code, $out, $err ], [ 1, '', "clairon errors: no entry of the error log has id $id{$away}\n$warning" ], "$what: a requested entry may be in a missing shard");
    ($code, $out, $err) = shift(@started)->();
    is_deeply([ $code, $err, $out =~ /would redrive (\d+)/ ], [ 1, $warning, scalar @others ], "$what: the entries of the other shards can be redriven");
    is_deeply([ (run('errors', 'drop', $id{$first}))[ 0, 1 ] ], [ 0, "dropped 1 entry\n" ], "$what: an entry of another shard is dropped") if $missing[0] == 0;
    $lost->start;
    $cluster->wait_discovered;
    is_deeply([ (run('errors', 'list'))[ 0, 2 ] ], [ 0, '' ], "$what returns: no shard is missing");
}

done_testing();
