# Tests that nginx routes users by the shard in the address, so that each relay reads only some of the shards of a cluster.
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch free_port top token);
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

plan skip_all => 'nginx is not installed' if !-x '/usr/sbin/nginx';

package Nginx
{
    use parent -norequire, 'Clairon::Test::Process';
    sub command { return ('/usr/sbin/nginx', '-p', $_[0]{folder}, '-c', "$_[0]{folder}/nginx.conf", '-e', 'stderr') }
}

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $cluster = Clairon::Test::store_cluster(replicas => 0);
my %conf    = ('store.min_replicas' => 0, 'gate.ping' => '1h', 'gate.trusted_proxies' => '127.0.0.1', 'gate.max_per_address' => 1000);
my @relays  = map { Clairon::Test::relay($pg, $cluster, conf => {%conf}) } 1, 2;

# The file with the line that its comment and docker/OPERATIONS.md name.
my $port   = free_port();
my $folder = scratch();
my $conf   = slurp_file(top() . '/docker/nginx.conf');
my %ports  = (8080 => $port, 8081 => $relays[0]{port}, 8082 => $relays[1]{port});
is($conf =~ s/127\.0\.0\.1:(808[012])/127.0.0.1:$ports{$1}/g, 3, 'the configuration names two relays');
my ($line) = $conf =~ /`(hash .*?;)`/;
is($conf =~ s/^    least_conn;$/    $line/m, 1, "and has the line that routes: $line");
open my $file, '>', "$folder/nginx.conf" or die "could not write: $!";
print {$file} "daemon off;\npid $folder/nginx.pid;\nevents { worker_connections 512; }\nhttp {\naccess_log off;\n",
  (map { "${_}_temp_path $folder/$_;\n" } qw(client_body proxy fastcgi uwsgi scgi)), $conf, "}\n";
close $file or die "could not write: $!";
my $nginx = bless { name => 'nginx', folder => $folder, log => "$folder/nginx.log" }, 'Nginx';
Clairon::Test::remember($nginx);
$nginx->start;

sub followed { my $sum = 0; $sum += $_->metric('clairon_store_followed_shards') for @relays; return $sum }

# A client of the user that connects through nginx.
sub client
{
    my ($user, $query) = @_;
    my $client = wait_until('nginx serves', sub { eval { Clairon::Test::Client->new("http://127.0.0.1:$port/v1/ws$query") } });
    is($client->connect(token(sub => $user))->{t}, 'connected', "$user connects with '$query'");
    return $client;
}

my %users;
for my $user (map { "user$_" } 1 .. 200) { push @{ $users{ $cluster->shard_of($user) } }, $user }
my @shards  = sort { $a <=> $b } keys %users;
my %clients = map { my $shard = $_; map { $_ => client($_, "?shard=$shard") } @{ $users{$shard} }[ 0, 1 ] } @shards;
is(followed(), @relays + @shards, 'each shard of a user is read by one relay');
cmp_ok($_->metric('clairon_store_followed_shards'), '>', 1, 'each relay reads some') for @relays;

my ($one, $two) = @shards;
my $wrong = client($users{$one}[2], "?shard=$two");
my $none  = client($users{$two}[2], '');
cmp_ok(followed(), '<=', @relays + @shards + 2, 'with a wrong shard or none, a relay may read one more');
$clients{ $users{$one}[2] } = $wrong;
$clients{ $users{$two}[2] } = $none;
$pg->safe_psql('postgres', "INSERT INTO t SELECT i, 'user' || i FROM generate_series(1, 200) i");
for my $user (sort keys %clients)
{
    $clients{$user}->wait_notifications(1);
    is_deeply([ map { $_->{payload}{after}{owner} } $clients{$user}->notifications ], [$user], "$user receives its row");
}

done_testing();
