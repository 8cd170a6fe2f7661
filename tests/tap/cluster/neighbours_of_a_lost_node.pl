# Tests that users whose shards are on other nodes notice a lost node only briefly: rows for a single user depend on no
# other shard. Rows of the lost shards arrive in order once the node is back.
use strict;
use warnings;

use Clairon::Test;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time);

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE one (id serial PRIMARY KEY, owner text, at float8);
    CREATE TABLE stop (is_stopped boolean);
    SELECT clairon.watch('one', 'USER', 'owner')});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my $relay   = Clairon::Test::relay($pg, $cluster, conf => { 'store.min_replicas' => 0, 'gate.ping' => '1h' });

# A user on the node of shard 0, one on another node, and one on the node that is lost.
my $shared = $cluster->primary_of(0);
my ($lost, $other) = grep { $_ != $shared } $cluster->primaries;
my ($on_shared, $on_other, $on_lost) = map { my $node = $_; (grep { $cluster->primary_of($cluster->shard_of("u$_")) == $node } 1 .. 200)[0] } $shared, $other, $lost;
my %clients = map { ("u$_" => $relay->client("u$_", win => 10_000)) } $on_shared, $on_other, $on_lost;

my $script = Clairon::Test::scratch() . '/rows.sql';
PostgreSQL::Test::Utils::append_to_file($script, qq{
    DO \$\$ BEGIN
        WHILE NOT EXISTS (SELECT FROM stop) LOOP
            INSERT INTO one (owner, at) SELECT 'u' || i, extract(epoch FROM clock_timestamp()) FROM unnest('{$on_shared,$on_other,$on_lost}'::int[]) i;
            COMMIT;
            PERFORM pg_sleep(0.05);
        END LOOP;
    END \$\$});
my $writer = Clairon::Test::writer($pg, $script);
my %checked;

# Returns the longest time that a row for a single user took to these users, until each has received rows for some seconds.
sub longest
{
    my ($what, $seconds, @users) = @_;
    my ($began, $worst) = (time, 0);
    $clients{ $users[0] }->run_until($what, sub {
        my $now = time;
        for my $user (@users)
        {
            my $messages = $clients{$user}{messages};
            for ($checked{$user} //= 0; $checked{$user} < @$messages; $checked{$user}++)
            {
                my $message = $messages->[ $checked{$user} ];
                $worst = max $worst, $now - $message->{n}{payload}{after}{at} if $message->{t} eq 'msg';
            }
        }
        return $now > $began + $seconds;
    });
    diag(sprintf '%s: %.2f s', $what, $worst);
    return $worst;
}

my @living = ("u$on_shared", "u$on_other");
longest('the first rows', 2, @living);
my $usual = longest('all nodes', 3, @living);
$lost->kill9;
cmp_ok(longest('a killed node', 6, @living), '<', $usual + 2, 'users of other nodes wait for a killed node less than 2 s');
$cluster->heal;
longest('the node is back', 6, keys %clients);
$cluster->pause($lost);
cmp_ok(longest('a paused node', 8, @living), '<', $usual + 5, 'users of other nodes wait for a paused node less than 5 s');
$pg->safe_psql('postgres', 'INSERT INTO stop VALUES (true)');
$writer->finish;
$cluster->heal;
for my $user (sort keys %clients)
{
    my @expected = split /\n/, $pg->safe_psql('postgres', "SELECT id FROM one WHERE owner = '$user' ORDER BY id");
    my $received = sub { my %had; return grep { !$had{$_}++ } map { $_->{payload}{after}{id} } $clients{$user}->notifications };
    $clients{$user}->run_until("$user receives all rows", sub { my @ids = $received->(); @ids >= @expected });
    is_deeply([ $received->() ], \@expected, "$user receives each row in order");
}
done_testing();
