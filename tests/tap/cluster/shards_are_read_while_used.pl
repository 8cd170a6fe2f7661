# Tests that a relay reads only the shards of its users, and that users of a newly read shard miss no notification and
# receive all in commit order.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed scratch amount);
use Test::More;

use constant { USERS => 12, ROUNDS => amount(3, 12) };
my $CHANGES = amount(250, 4000);    # versions of each user's row

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE task (id int PRIMARY KEY, owners text[], version int);
    SELECT clairon.watch('task', 'USER', 'owners')});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my %conf    = ('store.min_replicas' => 0, 'gate.ping' => '1h');
my $feed    = Clairon::Test::relay($pg, $cluster, roles => 'feed', conf => {%conf});
my ($gate, $other, $third) = map { Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => {%conf}) } 1 .. 3;
my @users   = map { "u$_" } 1 .. USERS;

sub followed { my ($relay) = @_; return $relay->metric('clairon_store_followed_shards') }

# Counts the readers' store connections to all nodes: one connection for each shard that a gate reads.
sub readers { return scalar map { grep { /cmd=xread/ } split /\n/, $_->execute('CLIENT', 'LIST', 'TYPE', 'normal') } $cluster->alive }

is(followed($_), 1, 'a gate without clients reads the shared shard') for $gate, $other, $third;
wait_until('each gate has one store reader', sub { readers() == 3 });
my ($first, $second) = map { $third->client('u1') } 1 .. 2;
wait_until('a gate reads the shard of its user', sub { followed($third) == 2 });
is(followed($gate),  1, 'the other gate does not read that shard');
wait_until('one store reader is added', sub { readers() == 4 });
$_->close for $first, $second;

# The rows of a user alternate between the user's shard and the shared shard.
my $file = scratch() . '/changes.sql';
my $text = '';
for my $version (1 .. $CHANGES)
{
    $text .= sprintf "INSERT INTO task VALUES (%d, '{%s}', %d) ON CONFLICT (id) DO UPDATE SET owners = EXCLUDED.owners, version = EXCLUDED.version;\n",
      $_, (rand() < 0.5 ? "u$_" : "u$_,nobody"), $version
      for 1 .. USERS;
}
PostgreSQL::Test::Utils::append_to_file($file, $text);

# A proxy that routes clients by shard depends on this assignment.
$pg->safe_psql('postgres', qq{SELECT clairon.notify('USER', '{$_}', '{}')}) for @users;
wait_until('the rows are stored', sub { $cluster->stored == USERS });
for my $entry ($cluster->entries)
{
    my ($user) = $entry->{data} =~ /"targets":\["(\w+)"\]/;
    is($entry->{stream}, 'clairon:{' . $cluster->shard_of($user) . '}:stream', "$user is in the documented shard");
}

my (%pos, %versions);
for my $user (@users)
{
    my $client = $gate->client($user);
    $pos{$user} = $client->pos;
    $client->close;
}

# Returns row versions. Other notifications are ignored: a relay may have read the users' first notification after their
# cursors.
sub versions { my ($client) = @_; return map { $_->{payload}{after}{version} // () } $client->notifications }

# Resumes a client, which receives the versions of its row up to this version.
sub receive
{
    my ($user, $relay, $wanted) = @_;
    my $client = $relay->client($user, pos => $pos{$user});
    my $before = @{ $versions{$user} //= [] };
    $client->run_until("$user has $wanted versions", sub { $before + versions($client) >= $wanted });
    push @{ $versions{$user} }, versions($client);
    ok($client->wait_for('connected')->{resumed}, "$user resumes");
    is($client->gaps, '', "$user receives no gap");
    $pos{$user} = $client->pos;
    return $client->close;
}

sub version { my ($user) = @_; return $pg->safe_psql('postgres', "SELECT coalesce(max(version), 0) FROM task WHERE id = " . substr $user, 1) }

my $writer = Clairon::Test::writer($pg, $file);
for my $round (1 .. ROUNDS)
{
    $gate->restart;
    $gate->wait_ready;
    is(followed($gate), 1, "round $round: the gate starts with the shared shard");
    for my $user (sort { rand() <=> 0.5 } @users)
    {
        # Clients resume from an older cursor, or from the newest cursor of other relays.
        receive($user, $other, version($user)) if rand() < 0.8;
        my $wanted = version($user) + 20;
        receive($user, $gate, $wanted < $CHANGES ? $wanted : $CHANGES);
    }
}
ok($writer->finish, 'all rows are written');
receive($_, $gate, $CHANGES) for @users;
is_deeply($versions{$_}, [ 1 .. $CHANGES ], "$_ receives each version once, in commit order") for @users;
is($gate->metric('clairon_store_unordered_total'), 0, 'no notification was out of order');

wait_until('a shard without users is no longer read', sub { followed($third) == 1 });
my $again = $third->client('u1');
wait_until('the shard is read again for a new client', sub { followed($third) == 2 });
$pg->safe_psql('postgres', q{UPDATE task SET owners = '{u1}', version = 0 WHERE id = 1});
$again->wait_notifications(1);
pass('the new client receives new notifications');
is($_->log_text =~ /level=(?:error|warn)/ ? 1 : 0, 0, 'no warning or error is logged') for $gate, $other, $third;

done_testing();
